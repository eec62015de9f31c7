"""Measured bandwidth and latency of the rails: taken between two hosts, judged and kept."""

from __future__ import annotations

#: How long one measurement may take, in whole seconds.
SECONDS = range(3, 61)
#: Where a server may listen; the jobs of each rail have the ports after it.
PORTS = range(1024, 65500)
