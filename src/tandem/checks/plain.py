"""Values of Ansible as those of Python alone."""

from __future__ import annotations

from typing import Any


def plain(value: Any) -> Any:
    """Containers and scalars without Ansible's own types, for messages and for json."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, str) else value
