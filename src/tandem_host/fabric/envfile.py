"""The environment file of the ranks: ``KEY=value`` lines, replaced in one step, absent on errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tandem_host import files
from tandem_host.findings import UnusableError, error
from tandem_host.strict import read_text

HEADER = "# Written by tandem-host at every start from /etc/tandem/cluster.json and what the host is now.\n"
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
# What systemd and a shell both take without quotes.
_VALUE = re.compile(r"[A-Za-z0-9_.,:=@%+/-]+")


def render(values: Mapping[str, str]) -> str:
    """The file's text; raises ValueError for a name or value that would need quotes or is empty."""
    for name, value in values.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ValueError(f"{name}={value!r} cannot stand in an environment file")
    return HEADER + "".join(f"{name}={value}\n" for name, value in sorted(values.items()))


def write(path: Path, values: Mapping[str, str]) -> None:
    """Replace the file in one step, mode 0644; raises OSError."""
    files.write_atomic(path, render(values))


def remove(path: Path) -> None:
    """Remove the file, so that no rank starts on what was true before."""
    files.remove(path)


def read(path: Path) -> dict[str, str]:
    """The variables of the file; raises UnusableError when it is missing or damaged."""
    again = "systemctl restart tandem-fabric.service; journalctl -u tandem-fabric.service says why it failed"
    try:
        text = read_text(path)
    except (FileNotFoundError, NotADirectoryError):
        message = f"{path} does not exist: the fabric is not ready."
        raise UnusableError([error("fabric.environment.missing", message, again)]) from None
    except OSError as problem:
        message = f"{path} cannot be read: {problem.strerror}."
        raise UnusableError([error("fabric.environment.unreadable", message, f"ls -l {path}")]) from None
    except ValueError as problem:
        message = f"{path} is no environment file: {problem}."
        raise UnusableError([error("fabric.environment.invalid", message, again)]) from None
    values = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, _, value = line.partition("=")
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            message = f"{path}: the line {line[:100]!r} is not NAME=value."
            raise UnusableError([error("fabric.environment.invalid", message, again)])
        values[name] = value
    return values
