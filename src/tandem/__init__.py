"""Tandem on the control machine."""
