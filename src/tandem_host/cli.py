"""The command line: one JSON document on standard output, exit status 0, 1 (findings) or 2 (bad input)."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from tandem_host import __version__
from tandem_host.findings import BadInputError, error

# Each area has a module ``cli`` whose ``register`` adds its parsers; the work is imported when it runs.
AREAS = ("fabric", "rank", "weights", "probe", "port", "release")


class _Parser(argparse.ArgumentParser):
    """Reports bad usage as a finding, so that a caller always gets JSON."""

    def _get_formatter(self) -> argparse.HelpFormatter:
        # argparse asks for one with every argument; without a width each looks up the terminal.
        return self.formatter_class(prog=self.prog, width=100)  # type: ignore[call-arg]

    def error(self, message: str) -> NoReturn:
        raise BadInputError(
            [error("usage.arguments.invalid", f"{self.prog}: {message}.", f"{self.prog} --help")]
        )


def parser(wanted: Sequence[str] = AREAS) -> argparse.ArgumentParser:
    """The parser with those of the wanted areas that are part of this build."""
    top = _Parser(prog="tandem-host", description=__doc__, allow_abbrev=False)
    top.add_argument("--version", action="version", version=__version__)
    areas = top.add_subparsers(dest="area", required=True, metavar="AREA", parser_class=_Parser)
    for area in wanted:
        name = f"tandem_host.{area}.cli"
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as problem:
            if problem.name in {name, name.rpartition(".")[0]}:
                continue
            raise
        module.register(areas)
    return top


def _answer(arguments: Sequence[str]) -> tuple[dict[str, Any], int]:
    try:
        # A rank waits for this program at every start: parsers of other areas would double its time.
        named = arguments[:1] if arguments and arguments[0] in AREAS else AREAS
        parsed = parser(named).parse_args(arguments)
        document: dict[str, Any] = parsed.run(parsed)
    except BadInputError as problem:
        return {"findings": [item.as_json() for item in problem.findings]}, 2
    except OSError as problem:
        where = problem.filename or "a system call"
        text = f"{where}: {problem.strerror or problem}."
        found = error(
            "host.file.failed", text, f"Look at the rights and the free space: ls -ld {where}; df -h"
        )
        return {"findings": [found.as_json()]}, 1
    except Exception as problem:
        # The caller must get JSON whatever happens; the traceback goes to the journal.
        import traceback

        traceback.print_exc()
        text = f"tandem-host {__version__} failed: {type(problem).__name__}: {problem}."
        fix = "Report this with the traceback from the journal or standard error."
        return {"findings": [error("host.tool.failed", text, fix).as_json()]}, 1
    findings = document.get("findings", [])
    return document, int(any(item["level"] == "error" for item in findings))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    document, status = _answer(sys.argv[1:] if arguments is None else arguments)
    print(json.dumps(document, indent=2))
    return status
