"""What runs from huge pages and why the rest does not: `hugealign ps`."""
