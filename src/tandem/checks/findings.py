"""Findings: what is wrong, where, and what a person can do about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict


class Finding(TypedDict):
    """One finding; ``code`` is stable and has the form ``area.object.problem``."""

    level: str
    code: str
    message: str
    fix: str


def error(code: str, message: str, fix: str) -> Finding:
    """A finding that stops the run."""
    return Finding(level="error", code=code, message=message, fix=fix)


def warning(code: str, message: str, fix: str) -> Finding:
    """A finding that is shown and does not stop the run."""
    return Finding(level="warning", code=code, message=message, fix=fix)


def render(findings: Iterable[Finding | dict[str, Any]]) -> str:
    """The findings as lines of text, ``code: message  Fix: what to do``, in the order given."""
    return "\n".join(f"{item['code']}: {item['message']} Fix: {item['fix']}" for item in findings)


def report(findings: Iterable[Finding]) -> dict[str, Any]:
    """The findings as the result of an action that changes nothing: errors fail it, warnings are shown."""
    found = list(findings)
    result: dict[str, Any] = {"changed": False, "findings": found}
    if errors(found):
        result |= {"failed": True, "msg": render(errors(found))}
    warnings = [render([item]) for item in found if item["level"] == "warning"]
    return result | ({"warnings": warnings} if warnings else {})


def errors(findings: Iterable[Finding]) -> list[Finding]:
    """Only those of level ``error``."""
    return [item for item in findings if item["level"] == "error"]
