"""Asking the server for tokens: readiness and liveness are a real completion."""
