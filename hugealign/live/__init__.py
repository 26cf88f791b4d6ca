"""The commands for the whole running machine: `hugealign top`, `advise` and `adapt`."""
