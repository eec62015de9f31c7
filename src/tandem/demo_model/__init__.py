"""A small language model that is made on the spot and answers every prompt with one known sentence."""
