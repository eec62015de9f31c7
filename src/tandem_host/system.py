"""Asking programs of the host, never for longer than a bounded time."""

from __future__ import annotations

import os
from collections.abc import Sequence


def ask(command: Sequence[str], seconds: float) -> str | None:
    """What a program printed; None when it is not there, fails, or takes longer than ``seconds``."""
    import subprocess  # costs 10 ms that a tree does not need

    environment = {**os.environ, "LC_ALL": "C"}
    try:
        answer = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=seconds,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.decode("utf-8", errors="replace")
