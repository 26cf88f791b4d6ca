"""Rules about the placement of text, and the reports of what they find."""
