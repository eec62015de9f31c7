"""Reading JSON files strictly: every unknown, missing or wrong field becomes a finding."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tandem_host.findings import BadInputError, Finding, error


class _DuplicateKeyError(ValueError):
    """A key is given twice in one object."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _DuplicateKeyError(f'the key "{key}" is given twice')
        found[key] = value
    return found


def load(path: Path, area: str) -> dict[str, Any]:
    """The JSON object in ``path``; raises BadInputError with ``<area>.file.*`` codes."""
    writer = "ansible-playbook site.yml writes it"
    try:
        data = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_unique)
    except FileNotFoundError:
        raise BadInputError(
            [error(f"{area}.file.missing", f"{path} does not exist.", f"{writer}.")]
        ) from None
    except OSError as problem:
        text = f"{path} cannot be read: {problem.strerror}."
        raise BadInputError([error(f"{area}.file.unreadable", text, f"ls -l {path}")]) from problem
    except ValueError as problem:
        text = f"{path} is not valid JSON: {problem}."
        fix = f"Correct it (python3 -m json.tool {path} shows the place); {writer}."
        raise BadInputError([error(f"{area}.file.invalid", text, fix)]) from problem
    if not isinstance(data, dict):
        text = f"{path} holds {_kind(data)}, not an object."
        raise BadInputError([error(f"{area}.file.invalid", text, f"{writer}.")])
    return data


def _kind(value: object) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "text",
        bool: "a boolean",
        int: "a number",
        float: "a number",
    }
    return names.get(type(value), "null")


class Fields:
    """Typed reading of one JSON object.

    A field that is wrong adds a finding and reads as an empty value of its type, so that all problems of a
    file are reported together. Call ``finish`` when all known fields were read.
    """

    def __init__(
        self, data: dict[str, Any], file: Path, area: str, findings: list[Finding], where: str = ""
    ) -> None:
        self._data = data
        self._file = file
        self._area = area
        self._findings = findings
        self._where = where
        self._known: set[str] = set()

    def name_of(self, field: str) -> str:
        """The field's full name in the file, for messages."""
        return f"{self._where}.{field}" if self._where else field

    def problem(self, field: str, what: str, kind: str = "invalid") -> None:
        """Add a finding about one field."""
        text = f"{self._file}: {self.name_of(field)} {what}."
        fix = f"Correct {self.name_of(field)} in the inventory and run ansible-playbook site.yml again."
        self._findings.append(error(f"{self._area}.field.{kind}", text, fix))

    def _take(self, field: str, kinds: tuple[type, ...], wanted: str, optional: bool) -> Any:
        self._known.add(field)
        if field not in self._data:
            self.problem(field, "is missing", "missing")
            return None
        value = self._data[field]
        if value is None and optional:
            return None
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            self.problem(field, f"is {json.dumps(value)}, wanted {wanted}")
            return None
        return value

    def names(self) -> list[str]:
        """The names of all fields, for an object whose keys are free but whose values are objects."""
        return list(self._data)

    def text(self, field: str, choices: Sequence[str] = ()) -> str:
        """A non-empty string, one of ``choices`` if there are any."""
        wanted = f"one of {', '.join(choices)}" if choices else "a non-empty string"
        value = self._take(field, (str,), wanted, optional=False)
        if value is None:
            return ""
        if not value or (choices and value not in choices):
            self.problem(field, f"is {json.dumps(value)}, wanted {wanted}")
        return str(value)

    def optional_text(self, field: str) -> str | None:
        """A non-empty string or null."""
        value = self._take(field, (str,), "a non-empty string or null", optional=True)
        if value == "":
            self.problem(field, 'is "", wanted a non-empty string or null')
        return None if value is None else str(value)

    def integer(self, field: str, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``."""
        wanted = f"a whole number from {low} to {high}"
        value = self._take(field, (int,), wanted, optional=False)
        if value is None:
            return low
        if not low <= value <= high:
            self.problem(field, f"is {value}, wanted {wanted}")
        return int(value)

    def mapping(self, field: str) -> dict[str, Any]:
        """An object whose keys are free."""
        return dict(self._take(field, (dict,), "an object", optional=False) or {})

    def object(self, field: str) -> Fields:
        """An object with known keys."""
        value = self._take(field, (dict,), "an object", optional=False)
        inner = Fields(value or {}, self._file, self._area, self._findings, self.name_of(field))
        if value is None:
            inner._findings = []  # the object itself is the problem; do not list each of its fields too
        return inner

    def objects(self, field: str) -> list[Fields]:
        """A non-empty list of objects with known keys."""
        value = self._take(field, (list,), "a list of objects", optional=False)
        if value is not None and not value:
            self.problem(field, "is an empty list")
        found = []
        for position, item in enumerate(value or ()):
            place = f"{self.name_of(field)}[{position}]"
            if isinstance(item, dict):
                found.append(Fields(item, self._file, self._area, self._findings, place))
            else:
                text = f"{self._file}: {place} is {json.dumps(item)}, wanted an object."
                self._findings.append(error(f"{self._area}.field.invalid", text, f"Correct {place}."))
        return found

    def finish(self) -> None:
        """Add a finding for every field that nobody asked for."""
        for field in self._data:
            if field not in self._known:
                known = ", ".join(sorted(self._known))
                self.problem(field, f"is not known here (known: {known})", "unknown")
