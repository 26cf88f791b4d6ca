"""Files and descriptors, sizes and numbers: what every other room needs, and knows nothing of."""
