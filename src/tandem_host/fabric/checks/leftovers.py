"""Settings of NCCL, Gloo and UCX that somebody left on the host: files of NCCL, profiles, systemd."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tandem_host.cluster import Cluster, Node
from tandem_host.findings import Finding, error, warning
from tandem_host.host import Host

# These froze a warm-up of four bytes between two Sparks.
FREEZING = frozenset({"NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS", "NCCL_IB_USE_INLINE"})
_VARIABLE = re.compile(r"\b((?:GLOO|NCCL|UCX)_\w+)\s*=\s*(\S*)")
_PROFILES = ("/etc/environment", "/etc/profile")
_PROFILE_DIRECTORIES = ("/etc/profile.d", "/etc/environment.d")
_MANAGER = "/etc/systemd/system.conf"


def unset_on_purpose(cluster: Cluster) -> frozenset[str]:
    """Variables that Tandem leaves to NCCL: a file may not set them either."""
    left_out = cluster.fabric.rdma and cluster.fabric.gid_policy == "auto"
    return frozenset({"NCCL_IB_GID_INDEX"}) if left_out else frozenset()


def settings(text: str) -> dict[str, str]:
    """The variables that a file sets in any of the usual ways; what is commented out does not count."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith(("#", ";")))
    return {match[1]: match[2].strip("\"'") for line in lines for match in _VARIABLE.finditer(line)}


def nccl_files(host: Host, cluster: Cluster, node: Node, user: str) -> list[Finding]:
    """What NCCL's own files set: it reads them in every program, after the environment.

    An error for what Tandem leaves unset on purpose and for what freezes a start, else a warning.
    """
    found = []
    for path in _nccl_paths(host, user):
        held = settings(host.read(path) or "")
        harmful = {name: value for name, value in held.items() if _harmful(name, value, cluster)}
        fix = f"sudo mv {path} {path}.old; Tandem sets what a rank needs at every start."
        if harmful:
            listing = ", ".join(f"{name}={value}" for name, value in harmful.items())
            text = f"{node.name}: {path} sets {listing}, which reaches every rank."
            found.append(error("fabric.nccl_file.harmful", text, fix))
        elif held:
            text = f"{node.name}: {path} sets {', '.join(held)} in every program that uses NCCL."
            found.append(warning("fabric.nccl_file.present", text, fix))
    return found


def _harmful(name: str, value: str, cluster: Cluster) -> bool:
    if name in FREEZING:
        return value != "0"
    return name in unset_on_purpose(cluster) and value != "-1"  # -1 is NCCL's own choice


def _nccl_paths(host: Host, user: str) -> list[str]:
    """The system's file and that in the home of the account that ranks run as."""
    paths = ["/etc/nccl.conf"]
    for line in (host.read("/etc/passwd") or "").splitlines():
        fields = line.split(":")
        if fields[0] == user and len(fields) > 5 and fields[5].startswith("/"):  # noqa: PLR2004
            paths.append(f"{fields[5].rstrip('/')}/.nccl.conf")
    return paths


def profiles(host: Host, node: Node) -> list[Finding]:
    """A warning for every profile, and for systemd's own defaults, that set such variables."""
    found = []
    for path in _profile_paths(host):
        held = settings(host.read(path) or "")
        if held:
            text = f"{node.name}: {path} sets {', '.join(held)} in every session; a rank does not get them."
            fix = f"Remove them from {path}: what is tried by hand is then what a rank does."
            found.append(warning("fabric.profile.variable", text, fix))
    for path in (_MANAGER, *_files(host, f"{_MANAGER}.d", ".conf")):
        held = _manager_settings(host.read(path) or "")
        if held:
            text = f"{node.name}: {path} sets {', '.join(held)} in every unit (DefaultEnvironment)."
            fix = f"Remove them from {path}; sudo systemctl daemon-reexec"
            found.append(warning("fabric.manager.variable", text, fix))
    return found


def _manager_settings(text: str) -> dict[str, str]:
    joined = re.sub(r"\\\n", " ", text)
    lines = [line for line in joined.splitlines() if line.strip().startswith("DefaultEnvironment")]
    return settings("\n".join(line.partition("=")[2] for line in lines))


def _profile_paths(host: Host) -> Iterator[str]:
    yield from _PROFILES
    for directory in _PROFILE_DIRECTORIES:
        yield from _files(host, directory)


def _files(host: Host, directory: str, ending: str = "") -> list[str]:
    return [f"{directory}/{name}" for name in host.names(directory) if name.endswith(ending)]
