"""Debian's servers, plain, on huge pages and in the order of a profile: the driver that both examples share.

``examples/mysql`` and ``examples/postgres`` each describe one server. ``server.toml`` has its packages, sources, builds,
tests, how it starts and what it trains on, as command templates; ``job.py`` writes the statements that are traced. Data
flow one way::

    server.toml → server: Example → debian (sources) → make (builds) → live: record → make_order → make (links) → verify
                → live: Live (text, samples, rounds) → tracing: Traced → reference → report → document

What is particular to one server stays out of this package.
"""
