"""Two virtual Sparks on one Linux machine: systemd hosts in network namespaces, or virtual machines."""
