"""An environment, or a log of NCCL, that somebody has, held against what the host is."""
