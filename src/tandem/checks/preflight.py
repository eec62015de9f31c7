"""What two hosts must be before anything is changed on them; pure functions over gathered facts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tandem.checks.findings import Finding, error, warning

GIB = 1024**3
Facts = dict[str, Any]


@dataclass(frozen=True)
class Needs:
    """What this release and this site ask of each host.

    ``disk_gib`` maps a directory to the free GiB wanted there; a host that holds its ``release_ids``
    entry (by host name) already needs only ``spare_gib``. ``platforms`` are the release's own entries.
    """

    release: str
    platforms: list[dict[str, Any]]
    accelerator: str
    disk_gib: dict[str, float]
    memory_gib: float
    ports: dict[str, int]
    release_ids: dict[str, str] = field(default_factory=dict)
    spare_gib: float = 0.5
    own_units: list[str] = field(default_factory=lambda: ["tandem-rank.service"])
    clock_seconds: float = 2.0
    python_minimum: tuple[int, int] = (3, 11)
    rails: dict[str, list[str]] = field(default_factory=dict)


def host_findings(facts: dict[str, Facts], needs: Needs) -> list[Finding]:
    """Every problem of every host, and then what the hosts disagree on.

    ``facts`` maps a host's inventory name to its fact ``tandem_host``.
    """
    found: list[Finding] = []
    for name, host in facts.items():
        for check in (_platform, _disk, _memory, _ports, _rails):
            found += check(name, host, needs)
    found += agreement_findings(facts) + clock_findings(facts, needs.clock_seconds)
    return found + identity_findings(facts)


def _platform(name: str, host: Facts, needs: Needs) -> list[Finding]:
    if not host["systemd"]:
        return [
            error(
                "host.systemd.missing",
                f"{name}: process 1 is not systemd.",
                "boot the host with systemd; the server runs as systemd units.",
            )
        ]
    version = tuple(int(part) for part in host["python"].split("."))
    if version < needs.python_minimum:
        wanted = ".".join(str(part) for part in needs.python_minimum)
        return [
            error(
                "host.python.old",
                f"{name}: /usr/bin/python3 is {host['python']}; {wanted} or newer is needed.",
                "use DGX OS 7, Ubuntu 24.04 or Debian 12.",
            )
        ]
    if platform_for(host, needs.platforms, needs.accelerator):
        return []
    offers = "; ".join(
        f"{item['machine']} with Python {item['python']} ({item['accelerator']})" for item in needs.platforms
    )
    return [
        error(
            "host.platform.unsupported",
            f"{name}: is {host['machine']} with Python {host['python']} ({needs.accelerator}); "
            f"release {needs.release} is locked for {offers}.",
            f"choose a release for {host['machine']} in tandem_release, or add a platform to "
            f"releases/{needs.release}/release.yml and run `tandem release lock {needs.release}`.",
        )
    ]


def platform_for(host: Facts, platforms: list[dict[str, Any]], accelerator: str) -> dict[str, Any] | None:
    """The release's platform that fits this host, or ``None``."""
    return next(
        (
            item
            for item in platforms
            if item["machine"] == host["machine"]
            and str(item["python"]) == host["python"]
            and item["accelerator"] == accelerator
        ),
        None,
    )


def _disk(name: str, host: Facts, needs: Needs) -> list[Finding]:
    wanted: dict[Any, tuple[float, list[str]]] = {}
    built = needs.release_ids.get(name) in host["releases"]
    for path, gib in needs.disk_gib.items():
        device = host["disks"][path]["device"]
        total, paths = wanted.get(device, (0.0, []))
        wanted[device] = (total + (needs.spare_gib if built else gib), [*paths, path])
    found = []
    for total, paths in wanted.values():
        free = host["disks"][paths[0]]["free"] / GIB
        if free < total:
            found.append(
                error(
                    "host.disk.full",
                    f"{name}: {free:.1f} GiB free for {' and '.join(paths)}; {total:.1f} GiB are needed.",
                    f"free space on {name} (`sudo du -xh --max-depth=2 / | sort -h | tail`).",
                )
            )
    return found


def _memory(name: str, host: Facts, needs: Needs) -> list[Finding]:
    total = host["memory_kib"]["MemTotal"] / 1024**2
    if total >= needs.memory_gib:
        return []
    return [
        error(
            "host.memory.small",
            f"{name}: {total:.1f} GiB of memory; release {needs.release} needs {needs.memory_gib:.1f} GiB.",
            "use a host with more memory, or a release with a smaller model.",
        )
    ]


def _ports(name: str, host: Facts, needs: Needs) -> list[Finding]:
    found = []
    for variable, port in needs.ports.items():
        holder = host["ports"].get(str(port))
        if holder is None or holder["unit"] in needs.own_units:
            continue
        unit = f", unit {holder['unit']}" if holder["unit"] else ""
        stop = f"`sudo systemctl stop {holder['unit']}`" if holder["unit"] else "stop that program"
        found.append(
            error(
                "host.port.busy",
                f"{name}: port {port} is held by {holder['command']} (pid {holder['pid']}{unit}).",
                f"{stop}, or set {variable} to a free port.",
            )
        )
    return found


def _rails(name: str, host: Facts, needs: Needs) -> list[Finding]:
    found = []
    for netdev in needs.rails.get(name, []):
        if netdev not in host["interfaces"]:
            there = ", ".join(sorted(set(host["interfaces"]) - {"lo"})) or "none"
            found.append(
                error(
                    "host.rail.missing",
                    f"{name}: has no interface {netdev}; it has {there}.",
                    f"put the right name into tandem_rails of {name}, or leave netdev out: names differ "
                    "between hosts when the cable goes from one cage to the other.",
                )
            )
    return found


def agreement_findings(facts: dict[str, Facts]) -> list[Finding]:
    """What must be the same on all hosts and is not: architecture, operating system, Python."""
    questions: list[tuple[str, str, Callable[[Facts], str]]] = [
        ("architecture", "pair.machine.differs", lambda host: str(host["machine"])),
        ("operating system", "pair.os.differs", lambda host: f"{host['os']['id']} {host['os']['version']}"),
        ("Python", "pair.python.differs", lambda host: str(host["python"])),
    ]
    found = []
    for what, code, answer in questions:
        answers = {name: answer(host) for name, host in facts.items()}
        if len(set(answers.values())) > 1:
            listing = ", ".join(f"{name} has {value}" for name, value in answers.items())
            found.append(
                error(
                    code, f"the hosts differ in {what}: {listing}.", "bring both hosts to the same release."
                )
            )
    return found


def identity_findings(facts: dict[str, Facts]) -> list[Finding]:
    """Hosts that were cloned: equal machine-ids or ssh host keys. Tandem goes by the inventory's names.

    Warnings, and nothing is made anew: both belong to the host's owner, and other things hang on them.
    """
    found = []
    for names, value in _shared(facts, lambda host: [host["machine_id"]]):
        found.append(
            warning(
                "pair.machine_id.same",
                f"{' and '.join(names)} have the same machine-id ({value}), and so may clash in leases.",
                f"on {names[-1]}: `sudo rm /etc/machine-id /var/lib/dbus/machine-id`, "
                "`sudo systemd-machine-id-setup`, reboot.",
            )
        )
    for names, value in _shared(facts, lambda host: list(host["ssh_host_keys"])):
        found.append(
            warning(
                "pair.ssh_key.same",
                f"{' and '.join(names)} have the same ssh host key ({value}): one can pose as the other.",
                f"on {names[-1]}: `sudo rm /etc/ssh/ssh_host_*`, `sudo ssh-keygen -A`, "
                "`sudo systemctl restart ssh`; here: `ssh-keygen -R` its name and address.",
            )
        )
    return found


def _shared(facts: dict[str, Facts], values: Callable[[Facts], list[str]]) -> list[tuple[list[str], str]]:
    """The values that more than one host has, with the hosts' names."""
    holders: dict[str, list[str]] = {}
    for name, host in facts.items():
        for value in values(host):
            if value:
                holders.setdefault(value, []).append(name)
    return [(names, value) for value, names in holders.items() if len(names) > 1]


def clock_offset(host: Facts) -> tuple[float, float]:
    """Lower and upper bound, in seconds, of this host's clock minus the control machine's.

    The host read its clock at some moment between the question and the answer.
    """
    return host["time"] - host["answered_at"], host["time"] - host["asked_at"]


def clock_findings(facts: dict[str, Facts], limit: float) -> list[Finding]:
    """Pairs of hosts whose clocks are further apart than ``limit`` seconds, for certain."""
    found = []
    names = list(facts)
    for index, first in enumerate(names):
        for second in names[index + 1 :]:
            low_a, high_a = clock_offset(facts[first])
            low_b, high_b = clock_offset(facts[second])
            apart = max(low_a - high_b, low_b - high_a)
            if apart > limit:
                found.append(
                    error(
                        "pair.clock.differs",
                        f"the clocks of {first} and {second} are at least {apart:.1f} s apart; "
                        f"{limit:g} s are allowed.",
                        "turn on time synchronisation on both (`sudo timedatectl set-ntp true`).",
                    )
                )
    return found
