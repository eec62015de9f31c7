"""The command line: one JSON document on standard output, exit status 0, 1 (findings) or 2 (bad usage)."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from tandem_host import __version__
from tandem_host.findings import BadInputError, UnusableError, error

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
    except UnusableError as problem:
        return {"findings": [item.as_json() for item in problem.findings]}, problem.status
    except OSError as problem:
        where = problem.filename or "a system call"
        text = f"{where}: {problem.strerror or problem}."
        look = f"ls -ld {where}; df -h {where}" if problem.filename else "df -h"
        found = error("host.file.failed", text, f"Look at the rights and the free space: {look}")
        return {"findings": [found.as_json()]}, 1
    except KeyboardInterrupt:
        text = "tandem-host was interrupted before it had an answer."
        found = error("host.tool.interrupted", text, "Run it again: what it writes is whole or not there.")
        return {"findings": [found.as_json()]}, 1
    except Exception as problem:
        # The caller must get JSON whatever happens; the traceback goes to the journal.
        import traceback

        if sys.stderr is not None:  # else it would be printed into the answer
            traceback.print_exc()
        text = f"tandem-host {__version__} failed: {type(problem).__name__}: {problem}."
        fix = "Report this with the traceback from the journal or standard error."
        return {"findings": [error("host.tool.failed", text, fix).as_json()]}, 1
    findings = document.get("findings", [])
    return document, int(any(item["level"] == "error" for item in findings))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    document, status = _answer(sys.argv[1:] if arguments is None else arguments)
    return _print(json.dumps(document, indent=2), status)


def _print(text: str, status: int) -> int:
    """Print the answer and return the exit status: not 0 when nobody could have got the answer."""
    if sys.stdout is None:
        return status
    try:
        print(text, flush=True)
    except OSError as problem:
        # Python would try to write the rest once more at its end and complain.
        with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123 - no Path for a constant
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        if not isinstance(problem, BrokenPipeError) and sys.stderr is not None:
            print(f"tandem-host: the answer cannot be written: {problem.strerror}", file=sys.stderr)
        return status or 1
    return status
