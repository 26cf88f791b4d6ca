"""Give the text of a linked file whole windows by editing headers: the plan (pure), the record, the output."""
