"""What a host has for a fabric: interfaces, cages, adapters, and which peer each rail reaches."""
