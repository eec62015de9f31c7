#!/usr/bin/python
"""Read what the roles need to know of one host, in one go and without changing anything."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tandem_gather
short_description: Facts of one host of the pair, in one module run
description:
  - Reads identity, Python, memory, disk, clock, interfaces, listening ports and installed packages.
  - Read-only, the same in check mode. Returned as the fact C(tandem_host).
options:
  paths:
    description: Directories whose file system's free space is wanted; they need not exist yet.
    type: list
    elements: str
    default: []
  ports:
    description: TCP ports whose holder is wanted.
    type: list
    elements: int
    default: []
  packages:
    description: Debian packages whose installed version is wanted.
    type: list
    elements: str
    default: []
  releases_dir:
    description: Directory that holds the releases; the names of the complete ones are wanted.
    type: str
    default: /opt/tandem/releases
author: [Tandem]
"""

import base64
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule


def os_release(text: str) -> dict[str, str]:
    """``{"id", "version"}`` from the text of /etc/os-release; empty strings where it is silent."""
    fields = dict(re.findall(r'^([A-Z_]+)="?([^"\n]*)"?$', text, re.MULTILINE))
    return {"id": fields.get("ID", ""), "version": fields.get("VERSION_ID", "")}


def meminfo(text: str) -> dict[str, int]:
    """Total, free and available memory in KiB from the text of /proc/meminfo."""
    sizes = {key: int(value) for key, value in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}
    return {name: sizes.get(name, 0) for name in ("MemTotal", "MemFree", "MemAvailable")}


def free_bytes(path: str) -> dict[str, Any]:
    """Bytes free for ``path``, measured at the nearest directory above it that exists."""
    probe = Path(path)
    while not probe.is_dir() and probe != probe.parent:
        probe = probe.parent
    usage = os.statvfs(probe)
    return {"free": usage.f_bavail * usage.f_frsize, "measured_at": str(probe), "device": probe.stat().st_dev}


def interfaces(document: str) -> dict[str, dict[str, Any]]:
    """``{name: {"mtu", "state", "addresses"}}`` from the JSON text of ``ip -j addr``."""
    return {
        link["ifname"]: {
            "mtu": link["mtu"],
            "state": link["operstate"],
            "addresses": [
                f"{entry['local']}/{entry['prefixlen']}"
                for entry in link.get("addr_info", [])
                if entry.get("scope") == "global"
            ],
        }
        for link in json.loads(document or "[]")
    }


def listeners(text: str) -> dict[int, list[int]]:
    """``{port: [pid, ...]}`` from the text of ``ss -Hltnp``."""
    found: dict[int, list[int]] = {}
    for line in text.splitlines():
        _state, _received, _sent, local = [*line.split(), "", "", "", ""][:4]
        if not local.rpartition(":")[2].isdigit():
            continue
        port = int(local.rpartition(":")[2])
        pids = [int(pid) for pid in re.findall(r"pid=(\d+)", line)]
        found.setdefault(port, []).extend(pids)
    return found


def holder(pids: list[int]) -> dict[str, Any]:
    """Who holds a port: first process, its name and its systemd unit (empty where unknown)."""
    if not pids:
        return {"pid": 0, "command": "unknown", "unit": ""}
    pid = pids[0]
    unit = ""
    command = "unknown"
    try:
        command = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
        match = re.search(r"/([^/]+\.service)", Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8"))
        unit = match.group(1) if match else ""
    except OSError:
        pass
    return {"pid": pid, "command": command, "unit": unit}


def packages(names: list[str]) -> dict[str, str]:
    """``{name: version}``; an empty version for what is not installed."""
    if not names or not shutil.which("dpkg-query"):
        return dict.fromkeys(names, "")
    text = _output(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status} ${Version}\n", *names])
    installed = {
        line.split()[0]: line.split()[2] for line in text.splitlines() if line.split()[1:2] == ["installed"]
    }
    return {name: installed.get(name, "") for name in names}


def fingerprints(texts: list[str]) -> list[str]:
    """The fingerprints of public keys, as ``ssh-keygen -l`` shows them; what is no public key has none."""
    found = []
    for text in texts:
        try:
            blob = base64.b64decode(text.split()[1], validate=True)
        except (IndexError, ValueError):
            continue
        found.append("SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("="))
    return sorted(found)


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def gather(paths: list[str], ports: list[int], names: list[str], releases_dir: str) -> dict[str, Any]:
    """Everything about this host, as one plain dictionary. Sizes in bytes unless the name says KiB."""
    listening = listeners(_output(["ss", "-Hltnp"]))
    return {
        "hostname": platform.node(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "os": os_release(_text("/etc/os-release")),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "uid": os.geteuid(),
        "time": time.time(),
        "machine_id": _text("/etc/machine-id").strip(),
        "ssh_host_keys": fingerprints(
            [_text(str(path)) for path in sorted(Path("/etc/ssh").glob("ssh_host_*_key.pub"))]
        ),
        "memory_kib": meminfo(_text("/proc/meminfo")),
        "cores": os.cpu_count() or 0,
        "disks": {path: free_bytes(path) for path in paths},
        "interfaces": interfaces(_output(["ip", "-j", "addr"])),
        "ports": {str(port): holder(listening[port]) for port in ports if port in listening},
        "packages": packages(names),
        "releases": sorted(path.parent.name for path in Path(releases_dir).glob("*/manifest.json")),
        "systemd": Path("/run/systemd/system").is_dir(),
    }


def main() -> None:
    """Run as an Ansible module."""
    module = AnsibleModule(
        argument_spec={
            "paths": {"type": "list", "elements": "str", "default": []},
            "ports": {"type": "list", "elements": "int", "default": []},
            "packages": {"type": "list", "elements": "str", "default": []},
            "releases_dir": {"type": "str", "default": "/opt/tandem/releases"},
        },
        supports_check_mode=True,
    )
    parameters = module.params
    facts = gather(
        parameters["paths"], parameters["ports"], parameters["packages"], parameters["releases_dir"]
    )
    module.exit_json(changed=False, ansible_facts={"tandem_host": facts})


if __name__ == "__main__":
    main()
