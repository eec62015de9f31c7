"""``tandem-host probe completion``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tandem_host import arguments


def register(areas: Any) -> None:
    """Add the commands of this area."""
    commands = arguments.group(areas, "probe", "ask the server for tokens")
    completion = commands.add_parser("completion", help="a chat completion at temperature 0")
    completion.add_argument("--url", required=True, help="for example http://spark-a:8888")
    completion.add_argument("--model", required=True, metavar="NAME", help="the served name")
    completion.add_argument("--api-key-file", type=Path, default=None, metavar="FILE")
    completion.add_argument(
        "--timeout", type=arguments.seconds, default=60.0, metavar="SECONDS", help="of one attempt"
    )
    completion.add_argument(
        "--deadline", type=arguments.seconds, default=0.0, metavar="SECONDS", help="keep trying this long"
    )
    completion.add_argument("--prompt", default="Count from one to ten.")
    completion.add_argument("--max-tokens", type=arguments.count, default=16)
    completion.add_argument(
        "--repeat", type=arguments.count, default=1, metavar="N", help="ask N times and compare the answers"
    )
    completion.add_argument(
        "--while-unit",
        default=None,
        metavar="UNIT",
        help="stop trying when this systemd unit of this host stops or restarts",
    )
    arguments.add_root(completion)
    completion.set_defaults(run=_completion)


def _completion(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.probe import completion, watch

    host = arguments.host_of(parsed)
    unit = None if parsed.while_unit is None else watch.Watch(host, parsed.while_unit)
    question = completion.Question(
        url=parsed.url,
        model=parsed.model,
        prompt=parsed.prompt,
        max_tokens=parsed.max_tokens,
        timeout=parsed.timeout,
        key=completion.read_key(parsed.api_key_file),
    )
    return completion.probe(question, deadline=parsed.deadline, repeat=parsed.repeat, watch=unit)
