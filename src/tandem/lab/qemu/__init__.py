"""Hosts as virtual machines: QEMU, with soft-RoCE HCAs. Slow where it must emulate, and real in all else."""
