"""Measured bandwidth and latency of the rails: taken between two hosts, judged and kept."""
