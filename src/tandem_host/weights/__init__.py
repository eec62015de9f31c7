"""Model directories: what must be in them, and whether it is."""
