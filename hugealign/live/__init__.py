"""The whole machine as it runs: `hugealign top`, `advise` and `adapt`."""
