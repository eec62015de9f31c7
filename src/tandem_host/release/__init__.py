"""A release on a host: its patches, the list of what was built, and the check that it is still that."""
