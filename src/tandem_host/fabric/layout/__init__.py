"""Who configures the rails of this host, and the one file that does from now on, with a way back."""
