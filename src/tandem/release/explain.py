"""Pydantic's errors as lines that name file, field and value, and what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo


def explain(source: Path, problem: ValidationError, model: type[BaseModel]) -> list[str]:
    """One line for each error that ``model`` found in the file ``source``."""
    return [_line(source, item, model) for item in problem.errors()]


def _line(source: Path, item: Any, model: type[BaseModel]) -> str:
    where = f"{source}: {_dotted(item['loc'])}"
    message = item["msg"].removeprefix("Value error, ")
    if item["type"] == "value_error":
        return f"{source}: {message}."
    value = item["input"]
    key = str(item["loc"][-1]) if item["loc"] else ""
    fields = _fields(_model_at(model, item["loc"][:-1]))
    if item["type"] == "missing":
        return f"{where} is missing. Fix: add it{_meaning(fields, key)}."
    if item["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, fields, 1)
        fix = f"write {near[0]!r}" if near else f"remove it; known here are {', '.join(fields)}"
        return f"{where} is not known here (its value is {value!r}). Fix: {fix}."
    if item["type"] == "string_type" and isinstance(value, int | float):
        return f"{where} is {value!r}, wanted text. Fix: put it in quotes."
    shown = f"a {type(value).__name__}" if isinstance(value, dict | list) else repr(value)
    return f"{where} is {shown}: {message}. Fix: correct it{_meaning(fields, key)}."


def _dotted(location: Sequence[str | int]) -> str:
    """``("platforms", 0, "lock")`` as ``platforms[0].lock``."""
    return re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", ".".join(str(part) for part in location)) or "the file"


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Fields by the name that they have in the file."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _meaning(fields: dict[str, FieldInfo], key: str) -> str:
    text = fields[key].description if key in fields else None
    return f" ({text})" if text else ""


def _model_at(model: type[BaseModel], location: Sequence[str | int]) -> type[BaseModel]:
    """The model of the mapping at ``location``; indices and keys of free mappings do not change it."""
    for part in location:
        field = _fields(model).get(str(part))
        model = (_inner(field.annotation) if field else None) or model
    return model


def _inner(annotation: Any) -> type[BaseModel] | None:
    """The model inside a type such as ``list[Platform]``, if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _inner(part))), None)
