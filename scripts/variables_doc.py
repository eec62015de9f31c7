"""Write docs/variables.md from the roles' argument specs.

Without arguments the page goes to standard output; with a path, to that file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).resolve().parents[1]
ORDER = (
    "tandem",
    "preflight",
    "spark_host",
    "rdma_fabric",
    "stack_release",
    "model_weights",
    "vllm_server",
    "fabric_copy",
)
HEAD = """\
# Variables

Set them in `inventory/sparks/group_vars/all/`, or for one host in `hosts.yml`. This page is made from the
`meta/argument_specs.yml` of the roles by `make docs`.
"""


def page(roles: Path) -> str:
    """The whole page: a section a role, a table row a variable."""
    return "\n".join([HEAD, *(_section(roles / name) for name in ORDER)])


def _section(role: Path) -> str:
    spec = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    main = spec["argument_specs"]["main"]
    lines = [f"## {role.name}", "", f"{main['short_description']}. {_text(main['description'])}", ""]
    lines += ["| variable | type | default | |", "|---|---|---|---|"]
    for name, option in main["options"].items():
        lines.append(f"| `{name}` | {option['type']} | {_default(option)} | {_description(option)} |")
    return "\n".join([*lines, ""])


def _default(option: dict[str, Any]) -> str:
    if option.get("required"):
        return "required"
    value = option.get("default")
    text = value if isinstance(value, str) else json.dumps(value)
    return f"`{text}`" if text else "empty"


def _description(option: dict[str, Any]) -> str:
    text = _text(option["description"])
    if "choices" in option:
        text += " One of " + ", ".join(f"`{choice}`" for choice in option["choices"]) + "."
    for name, part in option.get("options", {}).items():
        text += f" `{name}`: {_text(part['description'])}"
    return text


def _text(description: str | list[str]) -> str:
    text = " ".join(description) if isinstance(description, list) else description
    while "C(" in text:
        before, _, rest = text.partition("C(")
        inside, _, after = rest.partition(")")
        text = f"{before}`{inside}`{after}"
    return text.replace("|", "\\|")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(page(PROJECT / "roles"), encoding="utf-8")
    else:
        sys.stdout.write(page(PROJECT / "roles"))
