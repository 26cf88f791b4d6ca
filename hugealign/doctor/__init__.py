"""Find what keeps this machine from huge text: `probes` looks, `checks` judges, `report` writes."""
