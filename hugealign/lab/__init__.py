"""Traces of the code that runs, and what an instruction TLB would make of them under another layout."""
