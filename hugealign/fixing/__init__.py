"""Making the text of a linked file whole by editing headers: the plan (pure), the record, the output."""
