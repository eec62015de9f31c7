"""What every role keeps: a spec equal to its defaults, variables that are used, docs that are current."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).parents[3]
ROLES = sorted(path for path in (PROJECT / "roles").iterdir() if path.is_dir())
sys.path.insert(0, str(PROJECT / "scripts"))


def spec(role: Path) -> dict[str, Any]:
    document = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    options: dict[str, Any] = document["argument_specs"]["main"]["options"]
    return options


def defaults(role: Path) -> dict[str, Any]:
    return yaml.safe_load((role / "defaults" / "main.yml").read_text(encoding="utf-8")) or {}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_spec_and_defaults_say_the_same(role: Path) -> None:
    """Ansible applies neither a spec's defaults nor its types, so the two files must be kept equal."""
    described = {name: option["default"] for name, option in spec(role).items() if "default" in option}
    assert described == defaults(role)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_variable_is_described(role: Path) -> None:
    for name, option in spec(role).items():
        assert option.get("description"), name
        assert option.get("type"), name


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_variables_carry_the_role_name(role: Path) -> None:
    for name in defaults(role):
        assert name.startswith(f"{role.name}_"), name


def sources() -> dict[Path, str]:
    places = [PROJECT / name for name in ("roles", "playbooks", "templates", "inventory", "plugins")]
    return {
        path: path.read_text(encoding="utf-8")
        for place in places
        for path in place.rglob("*")
        if path.is_file() and path.suffix in {".yml", ".j2", ".py"}
    }


def test_every_variable_is_used() -> None:
    texts = sources()
    unused = []
    for role in ROLES:
        names = list(spec(role))
        constants = role / "vars" / "main.yml"
        if constants.exists():
            names += list(yaml.safe_load(constants.read_text(encoding="utf-8")))
        for name in names:
            word = re.compile(rf"\b{name}\b(?!:)")
            if not any(
                word.search(text) for path, text in texts.items() if path.name != "argument_specs.yml"
            ):
                unused.append(name)
    assert unused == []


def test_the_page_of_variables_is_current() -> None:
    import variables_doc

    page = (PROJECT / "docs" / "variables.md").read_text(encoding="utf-8")
    assert page == variables_doc.page(PROJECT / "roles"), "run `make docs`"


def test_every_changing_play_stops_as_one() -> None:
    """Without any_errors_fatal a rescue runs on one host only, and half a pair goes on."""
    for path in (PROJECT / "playbooks").glob("*.yml"):
        for play in yaml.safe_load(path.read_text(encoding="utf-8")):
            if "hosts" in play and play["hosts"] != "localhost":
                assert play.get("any_errors_fatal") is True, path
                assert "serial" not in play, path


def test_nothing_ignores_errors() -> None:
    offenders = [path for path, text in sources().items() if re.search(r"ignore_errors:\s*(true|yes)", text)]
    assert offenders == []


@pytest.mark.parametrize("scenario", sorted((PROJECT / "molecule").glob("*/molecule.yml")), ids=str)
def test_every_scenario_verifies(scenario: Path) -> None:
    """Molecule only warns where verify.yml is missing."""
    assert (scenario.parent / "verify.yml").exists()
