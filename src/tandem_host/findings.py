"""Findings: what is wrong, where, and what a person can do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

LEVELS = ("error", "warning", "info")


@dataclass(frozen=True)
class Finding:
    """One finding.

    ``level`` is ``error``, ``warning`` or ``info``; ``code`` is stable and reads ``area.object.problem``;
    ``message`` names host, device and value; ``fix`` is what a person can do.
    """

    level: str
    code: str
    message: str
    fix: str

    def as_json(self) -> dict[str, str]:
        """The finding as a JSON object."""
        return asdict(self)


class UnusableError(Exception):
    """What is on the host is missing or cannot be used: the command ends with its findings, status 1."""

    status = 1

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = list(findings)
        super().__init__("; ".join(f"{item.code}: {item.message}" for item in self.findings))


class BadInputError(UnusableError):
    """The command line asks for what cannot be: the command ends with its findings, exit status 2."""

    status = 2


def error(code: str, message: str, fix: str) -> Finding:
    """A finding that stops what was asked for."""
    return Finding("error", code, message, fix)


def warning(code: str, message: str, fix: str) -> Finding:
    """A finding that is shown and stops nothing."""
    return Finding("warning", code, message, fix)


def info(code: str, message: str, fix: str) -> Finding:
    """A finding that only explains the answer."""
    return Finding("info", code, message, fix)


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether one of them has level ``error``."""
    return any(item.level == "error" for item in findings)


def as_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """The findings as JSON objects: errors first, then warnings, then the rest; each only once."""
    unique = dict.fromkeys(findings)
    return [item.as_json() for item in sorted(unique, key=lambda item: LEVELS.index(item.level))]
