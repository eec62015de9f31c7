"""Releases: one lock of everything that must match, and the wheels that belong to it."""
