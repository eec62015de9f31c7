"""Running programs of this machine for the lab, with errors that a person can act on."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from tandem.lab.spec import LabError


def run(*argv: str, stdin: str | None = None, timeout: float = 60) -> str:
    """What ``argv`` prints. Raises LabError with its last words where it fails, is missing or hangs."""
    try:
        outcome = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, check=False, timeout=timeout
        )
    except FileNotFoundError as problem:
        raise LabError(f"{argv[0]} is not on this machine; `scripts/setup demo` installs it") from problem
    except subprocess.TimeoutExpired as problem:
        raise LabError(f"`{' '.join(argv)}` did not end within {timeout:.0f} s") from problem
    if outcome.returncode != 0:
        words = (outcome.stderr.strip() or outcome.stdout.strip()).splitlines()[-5:]
        raise LabError(f"`{' '.join(argv)}` ended with {outcome.returncode}: {' / '.join(words)}")
    return outcome.stdout


def succeeds(argv: Sequence[str], timeout: float = 60) -> bool:
    """Whether ``argv`` ends with 0; what it prints is dropped."""
    try:
        return subprocess.run(argv, capture_output=True, check=False, timeout=timeout).returncode == 0
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False


def run_json(*argv: str) -> Any:
    """The JSON document that ``argv`` prints; an empty list where it prints nothing."""
    return json.loads(run(*argv) or "[]")
