"""The whole machine: what runs and starts on it, what of that gains from huge text, and that alone, within a bound."""
