"""What runs on a Spark outside vLLM: standard library only, Python 3.11 to 3.13, shipped as one file."""

__version__ = "0.1.0"
