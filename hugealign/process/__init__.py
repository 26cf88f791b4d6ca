"""Read /proc: which processes run, what they map, and what of it is huge."""
