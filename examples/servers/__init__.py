"""Debian's servers, plain, on huge pages and in the order of a profile: what the examples of servers share."""
