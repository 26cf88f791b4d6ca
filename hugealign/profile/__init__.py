"""Profiles: one reader for each format, one model for all."""
