"""``tandem-host fabric bench|measured|classify``."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from tandem_host import arguments
from tandem_host.fabric.bench import PORTS, SECONDS

_BASELINE = Path("/var/lib/tandem/state/fabric-baseline.json")
_RESULT = Path("/run/tandem/fabric-bench.json")


def register(commands: Any) -> None:
    """Add these commands to those of the area ``fabric``."""
    bench = commands.add_parser("bench", help="measure bandwidth and latency of the rails, and judge them")
    measured = commands.add_parser("measured", help="whether the rails were measured since both hosts' boot")
    classify = commands.add_parser("classify", help="what a figure from elsewhere means")
    for parser in (bench, measured, classify):
        arguments.add_root(parser)
    for parser in (bench, measured):
        parser.add_argument("--config", type=Path, default=arguments.CLUSTER_FILE, metavar="FILE")
        parser.add_argument("--rank", type=int, default=None, help="default: by this host's addresses")
        parser.add_argument("--expect-gbps", type=positive, default=None, metavar="GBPS", help="of each rail")
    _bench(bench)
    measured.add_argument("--result", type=Path, default=_RESULT, metavar="FILE", help="kept by fabric bench")
    measured.add_argument(
        "--peer-boot-id", action="append", default=[], metavar="ID", help="of each other host, by rank"
    )
    measured.set_defaults(run=_run_measured)
    figure = classify.add_mutually_exclusive_group(required=True)
    figure.add_argument("--busbw", type=positive, metavar="GBYTES", help="as nccl-tests prints it")
    figure.add_argument(
        "--rail", type=positive, metavar="GBPS", help="as ib_write_bw --report_gbits prints it"
    )
    classify.add_argument("--rails", type=arguments.count, default=2, help="rails in use; default 2")
    classify.add_argument("--bytes", type=arguments.count, default=2**30, help="message size of --busbw")
    classify.set_defaults(run=_run_classify)


def _bench(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--serve", action="store_true", help="be the side that another host measures against")
    add("--for", type=arguments.seconds, default=900.0, dest="serve_seconds", metavar="SECONDS")
    add("--port", type=port, default=29522, help="TCP, the same on both sides; each rail has one after it")
    add("--seconds", type=seconds, default=3, metavar="SECONDS", help="of each measurement, 3 to 60")
    add("--tcp", action="store_true", help="measure TCP too where there are verbs")
    add("--baseline", type=Path, default=_BASELINE, metavar="FILE")
    add("--baseline-share", type=share, default=0.85, metavar="SHARE", help="less is a finding; default 0.85")
    add("--save-baseline", action="store_true", help="keep these figures as the baseline")
    add("--result", type=Path, default=None, metavar="FILE", help="keep the answer there")
    parser.set_defaults(run=_run_bench)


def positive(text: str) -> float:
    """A number above 0, as the type of an argument; raises ValueError."""
    value = float(text)
    if not math.isfinite(value) or value <= 0:
        raise ValueError
    return value


def share(text: str) -> float:
    """A part of one, above 0, as the type of an argument; raises ValueError."""
    value = positive(text)
    if value > 1:
        raise ValueError
    return value


def port(text: str) -> int:
    """A port that leaves room after it, as the type of an argument; raises ValueError."""
    value = int(text)
    if value not in PORTS:
        raise ValueError
    return value


def seconds(text: str) -> int:
    """How long one measurement may take, as the type of an argument; raises ValueError."""
    value = int(text)
    if value not in SECONDS:
        raise ValueError
    return value


def _run_bench(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.fabric.bench import commands

    host = arguments.host_of(parsed)
    if parsed.serve:
        return commands.serve(host, parsed.config, parsed.rank, parsed.port, parsed.serve_seconds)
    options = commands.Options(
        port=parsed.port,
        seconds=parsed.seconds,
        tcp=parsed.tcp,
        gbps=parsed.expect_gbps,
        baseline=parsed.baseline,
        share=parsed.baseline_share,
        save_baseline=parsed.save_baseline,
        result=parsed.result,
    )
    return commands.bench(host, parsed.config, parsed.rank, options)


def _run_measured(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.fabric.bench import commands

    return commands.measured(
        arguments.host_of(parsed),
        parsed.config,
        parsed.rank,
        parsed.result,
        parsed.peer_boot_id,
        parsed.expect_gbps,
    )


def _run_classify(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.fabric.bench import commands

    host = arguments.host_of(parsed)
    return commands.classify(host, parsed.busbw, parsed.rail, parsed.rails, parsed.bytes)
