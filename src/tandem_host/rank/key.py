"""The API key: read from a file that only its owner and one group can read, kept in memory."""

from __future__ import annotations

import stat
from pathlib import Path

from tandem_host.findings import UnusableError, error
from tandem_host.strict import read_text


def read(path: Path, host: str) -> str:
    """The key; raises UnusableError when the file is missing, empty, open to everybody or not one word."""
    try:
        mode = path.stat().st_mode
        if mode & stat.S_IRWXO:
            text = f"{host}: everybody may read the API key in {path} (mode {stat.S_IMODE(mode):04o})."
            fix = f"chmod 0640 {path}; chgrp tandem {path}; then make a new key."
            raise UnusableError([error("rank.key.exposed", text, fix)])
        content = read_text(path).strip()
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not text"
        text = f"{host}: the API key in {path} cannot be read: {reason}."
        raise UnusableError(
            [error("rank.key.missing", text, "ansible-playbook site.yml writes it")]
        ) from None
    if not content:
        text = f"{host}: the API key in {path} is empty: anybody could use the server."
        raise UnusableError(
            [error("rank.key.empty", text, "Write one word into it, or clear vllm_server_api_key_file.")]
        )
    if len(content.split()) > 1 or not content.isprintable():
        text = f"{host}: the API key in {path} has white space or control characters in it."
        raise UnusableError([error("rank.key.invalid", text, "Give one word of printable characters.")])
    return content
