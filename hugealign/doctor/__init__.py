"""What stands between this machine and huge text: `probes` look, `checks` judge, `report` writes."""
