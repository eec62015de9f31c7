"""Reading JSON files strictly: every unknown, missing or wrong field becomes a finding."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tandem_host.findings import Finding, UnusableError, error

# Far more than any file of a pair needs; what is larger is not one of ours and is not read into memory.
LARGEST_BYTES = 64 * 1024 * 1024
_DEEPEST = 50
_SHOWN = 100
_WRITER = "ansible-playbook site.yml writes it"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f'the key "{key[:_SHOWN]}" is given twice')
        found[key] = value
    return found


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:_SHOWN]} is too large")
    return value


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def parse(text: str | bytes) -> Any:
    """The value of a JSON text; raises ValueError for all that is not JSON, a key given twice included.

    Python's own reader takes NaN and infinite numbers, and ends differently when a text is nested too deep.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def read_text(path: Path) -> str:
    """The text of a file (UTF-8); raises OSError, or ValueError when it is too large or not text."""
    with path.open("rb") as stream:
        data = stream.read(LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise ValueError(f"it has more than {LARGEST_BYTES} bytes")
    return data.decode("utf-8")


def load(path: Path, subject: str, writer: str = _WRITER) -> dict[str, Any]:
    """The JSON object in ``path``.

    Raises UnusableError with ``<subject>.missing``, ``<subject>.unreadable`` or ``<subject>.invalid``.
    """
    try:
        data = parse(read_text(path))
        if _depth_exceeds(data, _DEEPEST):
            raise ValueError("it is nested too deep")  # noqa: TRY301 - answered like other damage
    except (FileNotFoundError, NotADirectoryError):
        raise UnusableError([error(f"{subject}.missing", f"{path} does not exist.", f"{writer}.")]) from None
    except OSError as problem:
        text = f"{path} cannot be read: {problem.strerror}."
        fix = f"ls -l {path}; it must be a file that this user may read."
        raise UnusableError([error(f"{subject}.unreadable", text, fix)]) from problem
    except ValueError as problem:
        text = f"{path} is not valid JSON: {problem}."
        fix = f"Correct it (python3 -m json.tool {path} shows the place); {writer}."
        raise UnusableError([error(f"{subject}.invalid", text, fix)]) from problem
    if not isinstance(data, dict):
        text = f"{path} holds {_kind(data)}, not an object."
        raise UnusableError([error(f"{subject}.invalid", text, f"{writer}.")])
    return data


def _depth_exceeds(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for item in level
            if isinstance(item, (dict, list))
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return bool(level)


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


def shown(value: Any) -> str:
    """A value for a message: as JSON, and not more of it than a person reads."""
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def plain(text: str) -> bool:
    """Whether a program can take the text as it is: no control characters, no halves of characters."""
    return text.isprintable()


class Fields:
    """Typed reading of one JSON object.

    A field that is wrong adds a finding and reads as an empty value of its type, so that all problems of a
    file are reported together. Call ``finish`` when all known fields were read. ``fix`` is what helps when a
    field is wrong; without it, the inventory is where to correct it.
    """

    def __init__(  # noqa: PLR0917
        self,
        data: dict[str, Any],
        file: Path,
        area: str,
        findings: list[Finding],
        where: str = "",
        fix: str = "",
    ) -> None:
        self._data = data
        self._file = file
        self._area = area
        self._findings = findings
        self._where = where
        self._fix = fix
        self._known: set[str] = set()

    def name_of(self, field: str) -> str:
        """The field's full name in the file, for messages."""
        name = field if len(field) <= _SHOWN else f"{field[:_SHOWN]}…"
        return f"{self._where}.{name}" if self._where else name

    def problem(self, field: str, what: str, kind: str = "invalid") -> None:
        """Add a finding about one field."""
        text = f"{self._file}: {self.name_of(field)} {what}."
        inventory = f"Correct {self.name_of(field)} in the inventory and run ansible-playbook site.yml again."
        self._findings.append(error(f"{self._area}.field.{kind}", text, self._fix or inventory))

    def _take(self, field: str, kinds: tuple[type, ...], wanted: str, optional: bool) -> Any:
        self._known.add(field)
        if field not in self._data:
            self.problem(field, "is missing", "missing")
            return None
        value = self._data[field]
        if value is None and optional:
            return None
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            self.problem(field, f"is {shown(value)}, wanted {wanted}")
            return None
        return value

    def names(self) -> list[str]:
        """The names of all fields, for an object whose keys are free but whose values are objects."""
        return list(self._data)

    def text(self, field: str, choices: Sequence[str] = ()) -> str:
        """A non-empty string of printable characters, one of ``choices`` if there are any."""
        wanted = f"one of {', '.join(choices)}" if choices else "a non-empty string"
        value = self._take(field, (str,), wanted, optional=False)
        if value is None:
            return ""
        if not value or (choices and value not in choices):
            self.problem(field, f"is {shown(value)}, wanted {wanted}")
        elif not plain(value):
            self.problem(field, f"is {shown(value)}, which has characters that cannot be printed")
        return str(value)

    def optional_text(self, field: str) -> str | None:
        """A non-empty string of printable characters, or null."""
        value = self._take(field, (str,), "a non-empty string or null", optional=True)
        if value == "":
            self.problem(field, 'is "", wanted a non-empty string or null')
        elif value is not None and not plain(value):
            self.problem(field, f"is {shown(value)}, which has characters that cannot be printed")
        return None if value is None else str(value)

    def integer(self, field: str, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``."""
        wanted = f"a whole number from {low} to {high}"
        value = self._take(field, (int,), wanted, optional=False)
        if value is None:
            return low
        if not low <= value <= high:
            self.problem(field, f"is {shown(value)}, wanted {wanted}")
        return int(value)

    def texts(self, field: str) -> list[str]:
        """A list of strings."""
        value = self._take(field, (list,), "a list of strings", optional=False) or []
        if not all(isinstance(item, str) for item in value):
            self.problem(field, f"is {shown(value)}, wanted a list of strings")
            return []
        return list(value)

    def mapping(self, field: str) -> dict[str, Any]:
        """An object whose keys are free."""
        return dict(self._take(field, (dict,), "an object", optional=False) or {})

    def object(self, field: str) -> Fields:
        """An object with known keys."""
        value = self._take(field, (dict,), "an object", optional=False)
        inner = Fields(value or {}, self._file, self._area, self._findings, self.name_of(field), self._fix)
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
            place = f"{field}[{position}]"
            if isinstance(item, dict):
                name = self.name_of(place)
                found.append(Fields(item, self._file, self._area, self._findings, name, self._fix))
            else:
                self.problem(place, f"is {shown(item)}, wanted an object")
        return found

    def finish(self) -> None:
        """Add a finding for the fields that nobody asked for."""
        unknown = [field for field in self._data if field not in self._known]
        known = ", ".join(sorted(self._known))
        several = 5
        for field in unknown[:several]:
            self.problem(field, f"is not known here (known: {known})", "unknown")
        if len(unknown) > several:
            more = len(unknown) - several - 1
            self.problem(unknown[several], f"and {more} more are not known here", "unknown")
