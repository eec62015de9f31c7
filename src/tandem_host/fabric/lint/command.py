"""``fabric lint``: is this environment right for this host, and did NCCL take the rails?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem_host.fabric.checks.leftovers import FREEZING
from tandem_host.fabric.lint import adapters, interfaces, nccl_log, settings, situation
from tandem_host.fabric.lint.settings import Setting
from tandem_host.fabric.lint.situation import Situation
from tandem_host.findings import BadInputError, Finding, as_json, error, warning
from tandem_host.host import Host
from tandem_host.strict import read_text

_NETWORK = ("GLOO_", "MASTER_", "MN_IF_", "NCCL_", "OMPI_", "TP_SOCKET_", "UCX_", "VLLM_HOST_IP")


@dataclass(frozen=True)
class Files:
    """What to read: cluster.json for the rails, an environment, a log; None for what was not given."""

    config: Path | None
    environment: Path | None
    nccl_log: Path | None


def lint(host: Host, files: Files, rank: int | None) -> dict[str, Any]:
    """All that is wrong with the environment, and with the transport of the log, on this host."""
    if files.environment is None and files.nccl_log is None:
        raise _usage("give --env-file or --nccl-log")
    if files.nccl_log is not None and files.config is None:
        raise _usage("--nccl-log needs --config: the rails are compared with it")
    seen = situation.read(host, files.config, rank)
    document: dict[str, Any] = {"host": seen.name}
    findings = list(seen.findings)
    if files.environment is not None:
        given, odd = settings.parse(_text(files.environment))
        document["variables"] = {item.name: item.value for item in given if item.name.startswith(_NETWORK)}
        findings += odd + environment(seen, given)
    if files.nccl_log is not None:
        used = nccl_log.parse(_text(files.nccl_log), host.name)
        document["transport"] = used.as_json()
        findings += nccl_log.findings(seen, used)
    return document | {"findings": as_json(findings)}


def environment(seen: Situation, given: list[Setting]) -> list[Finding]:
    """Everything that is wrong with the variables on this host."""
    values = {item.name: item for item in given}
    found = []
    for item in given:
        if not item.value and item.name.startswith(_NETWORK):
            text = f"{seen.name}: {item.name} is empty (line {item.line}); an empty number is read as 0."
            found.append(error("fabric.lint.empty", text, "Remove the line: unset is not the same as empty."))
        found += interfaces.findings(seen, item)
        if item.name in FREEZING and item.value != "0":
            text = f"{seen.name}: {item.name}={item.value} froze small transfers between two Sparks."
            found.append(warning("fabric.lint.freezing", text, f"Leave {item.name} out."))
    return found + adapters.findings(seen, values) + _sockets(seen, values)


def _sockets(seen: Situation, values: dict[str, Setting]) -> list[Finding]:
    """A warning where RDMA is there and turned off."""
    off = [
        f"{name}={values[name].value}"
        for name, words in (("NCCL_IB_DISABLE", ("1",)), ("NCCL_NET", ("Socket", "socket")))
        if name in values and values[name].value in words
    ]
    active = [port.hca for port in seen.ports if port.active]
    wanted = seen.cluster is None or seen.cluster.fabric.rdma
    if not off or not active or not wanted:
        return []
    text = f"{seen.name}: {' and '.join(off)} turns RDMA off, though {', '.join(active)} is up: about 2 GB/s."
    return [warning("fabric.lint.sockets", text, f"Remove {' and '.join(off)}.")]


def _usage(what: str) -> BadInputError:
    fix = "/opt/tandem/libexec/tandem-host fabric lint --env-file FILE --config /etc/tandem/cluster.json"
    return BadInputError([error("usage.arguments.invalid", f"tandem-host fabric lint: {what}.", fix)])


def _text(path: Path) -> str:
    """The text of a file that was named; raises BadInputError when it cannot be read."""
    try:
        return read_text(path)
    except OSError as problem:
        why = str(problem.strerror)
    except ValueError as problem:
        why = str(problem)
    text = f"{path} cannot be read: {why}."
    raise BadInputError([error("usage.file.unreadable", text, f"ls -l {path}; it must be text.")])
