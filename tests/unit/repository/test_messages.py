"""docs/messages.md lists the codes that the sources have, and no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).parents[3]
PAGE = PROJECT / "docs" / "messages.md"
PROGRAMS = sorted(path for name in ("src", "plugins") for path in (PROJECT / name).rglob("*.py"))
STEPS = sorted(path for name in ("roles", "playbooks") for path in (PROJECT / name).rglob("*.yml"))

# A code alone, or at the beginning of a text: `host.ssh.unreachable: spark-a: …`.
CODE = re.compile(r"([a-z]+(?:\.[a-z_]+){2,3})(?::\s|$)")
# First words of what else has this form: modules of Ansible, names of tensors and files.
OTHER_WORDS = {"ansible", "model", "pylock"}
# The functions whose first argument is a code.
FINDINGS = {"error", "warning", "info"}
# A missing state says that nothing was started, so rank/state.py leaves the finding out.
NEVER_SHOWN = {"rank.state.missing"}

Trees = dict[Path, ast.Module]


def trees() -> Trees:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in PROGRAMS}


def code_of(text: object) -> str | None:
    match = CODE.match(text) if isinstance(text, str) else None
    return match[1] if match and match[1].split(".")[0] not in OTHER_WORDS else None


def literals(node: ast.AST, *, compared: bool) -> Iterator[str]:
    """Codes written out: those that are asked about (a comparison, a set), or all others."""
    if isinstance(node, ast.Compare | ast.Set):
        if compared:
            yield from filter(None, (code_of(getattr(item, "value", None)) for item in ast.walk(node)))
        return
    if isinstance(node, ast.Constant) and not compared and (code := code_of(node.value)):
        yield code
    for child in ast.iter_child_nodes(node):
        yield from literals(child, compared=compared)


def calls(found: Trees, *names: str, within: str = "") -> Iterator[ast.Call]:
    """Calls of functions or methods by their names, in files whose path ends in ``within``."""
    for path, tree in found.items():
        if path.as_posix().endswith(within):
            for node in ast.walk(tree):
                if isinstance(node, ast.Call):
                    called = node.func
                    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
                    if name in names:
                        yield node


def words(found: Trees, name: str, position: int, within: str = "") -> set[str]:
    """The texts written out as one argument of a function."""
    given = [call.args[position] for call in calls(found, name, within=within) if len(call.args) > position]
    return {item.value for item in given if isinstance(item, ast.Constant) and isinstance(item.value, str)}


def templates(found: Trees) -> set[str]:
    """Codes that are put together, as they stand in the source: ``cluster.{code}``."""
    codes = [call.args[0] for call in calls(found, *FINDINGS) if call.args]
    return {ast.unparse(item)[2:-1] for item in codes if isinstance(item, ast.JoinedStr)}


def expansions(found: Trees) -> dict[str, set[str]]:
    """Each template with the codes that it stands for, from the calls that fill it in."""
    subjects = words(found, "load", 1)
    areas = words(found, "Fields", 2)
    kinds = {"invalid", *words(found, "problem", 2)}
    return {
        "cluster.{code}": {f"cluster.{word}" for word in words(found, "add", 0, "tandem_host/cluster.py")},
        "serve.argument.{problem}": {
            f"serve.argument.{word}" for word in words(found, "add", 0, "rank/serve.py")
        },
        "weights.header.{problem}": {
            f"weights.header.{word}" for word in words(found, "wrong", 0, "weights/safetensors.py")
        },
        "weights.index.{problem}": {
            f"weights.index.{word}" for word in words(found, "add", 0, "weights/safetensors.py")
        },
        "{self._area}.field.{kind}": {f"{area}.field.{kind}" for area in areas for kind in kinds},
        **{
            f"{{subject}}.{problem}": {f"{subject}.{problem}" for subject in subjects}
            for problem in ("missing", "unreadable", "invalid")
        },
    }


def step_texts(node: Any) -> Iterator[str]:
    """What tasks say when they fail."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("msg", "fail_msg") and isinstance(value, str):
                yield value
            yield from step_texts(value)
    elif isinstance(node, list):
        for item in node:
            yield from step_texts(item)


def codes() -> set[str]:
    """Every code that a person may meet."""
    found = trees()
    written = {code for tree in found.values() for code in literals(tree, compared=False)}
    built = set[str]().union(*expansions(found).values())
    told = {
        code
        for path in STEPS
        for text in step_texts(yaml.safe_load(path.read_text(encoding="utf-8")))
        if (code := code_of(text.strip()))
    }
    return (written | built | told) - NEVER_SHOWN


def sections() -> dict[str, list[list[str]]]:
    """The rows of the page by the heading that they stand under, as lists of cells."""
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line.startswith("| `") and heading:
            cells = re.split(r"(?<!\\)\|", line.strip("|"))
            found.setdefault(heading, []).append([cell.strip() for cell in cells])
    return found


def documented() -> list[str]:
    return [row[0].strip("`") for rows in sections().values() for row in rows]


def test_every_code_has_a_row() -> None:
    assert sorted(codes() - set(documented())) == []


def test_every_row_has_a_code() -> None:
    assert sorted(set(documented()) - codes()) == []


def test_a_code_has_one_row() -> None:
    rows = documented()
    assert sorted({code for code in rows if rows.count(code) > 1}) == []


def test_a_row_says_what_is_wrong_and_what_to_do_under_its_area() -> None:
    for heading, rows in sections().items():
        for row in rows:
            assert len(row) == 3, row
            assert all(row), row
            assert row[0].strip("`").split(".")[0] in heading.split(), row


def test_what_is_put_together_is_expanded() -> None:
    """A code that is built in a new way needs a line in ``expansions``."""
    found = trees()
    assert templates(found) == set(expansions(found))
    assert all(expansions(found).values())


def test_what_is_asked_about_exists() -> None:
    """A comparison with a code that nothing raises would never be true."""
    asked = {code for tree in trees().values() for code in literals(tree, compared=True)}
    assert asked <= codes() | NEVER_SHOWN
