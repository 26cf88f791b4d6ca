"""Commands on files that were made to break them: what each may cost, and how it ends."""
