"""Who holds a TCP port."""
