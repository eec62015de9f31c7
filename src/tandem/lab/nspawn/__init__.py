"""Hosts as containers: systemd-nspawn in network namespaces. Native speed, seconds to boot, no RDMA."""
