"""One vLLM rank of this host: what it is started with, whether it runs, and what it talks to."""
