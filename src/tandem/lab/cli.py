"""``tandem lab``: two virtual Sparks, made, broken and removed."""

from __future__ import annotations

import json
import os
import pwd
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from tandem.lab.spec import Lab, LabError, check_name, client_directory, parse_cable

app = typer.Typer(no_args_is_help=True, help="Two virtual Sparks on this machine.")

Result = TypeVar("Result")
Name = Annotated[str, typer.Option(help="Name of the lab.")]
Network = Annotated[str, typer.Option(help="First three parts of its management network, such as 10.231.7.")]
HostName = Annotated[str, typer.Argument(metavar="HOST", help="spark-a or spark-b.")]
Netdev = Annotated[str, typer.Argument(metavar="RAIL", help="enp1s0f0np0 or enP2p1s0f0np0.")]
Driver = Annotated[str, typer.Option(help="nspawn: containers, quick. qemu: virtual machines, with RDMA.")]
Cable = Annotated[str, typer.Option(help="Which cage of spark-a is joined to which of spark-b; qemu only.")]


@app.command()
def up(
    name: Name = "demo", network: Network = "10.231.7", driver: Driver = "nspawn", cable: Cable = "0:0"
) -> None:
    """Make two virtual Sparks and wait until both are up. A second time it finds them in place."""
    manage = _as_root()
    lab = _tell(lambda: Lab(name, network, driver, parse_cable(cable)))
    changed = _tell(lambda: manage.up(lab, _owner(name)))
    hosts = ", ".join(f"{host.name} {host.address}" for host in lab.hosts)
    typer.echo(f"lab {name} {'is up' if changed else 'was up already'}: {hosts}")
    typer.echo(f"ssh -F {_owner(name).directory}/ssh_config {lab.hosts[0].name}")


@app.command()
def down(
    name: Name = "demo",
    purge: Annotated[bool, typer.Option("--purge", help="Also the cached root image and wheels.")] = False,
) -> None:
    """Remove the hosts, their disks and networks, and the person's keys to them."""
    manage = _as_root()
    was = _tell(lambda: manage.down(check_name(name), _owner(name)))
    if purge:
        _tell(manage.purge)
        _tell(lambda: _remove_wheels(name))
    typer.echo(f"lab {name} {'is gone' if was else 'was not there'}{'; the caches too' if purge else ''}")


@app.command()
def status(
    name: Annotated[str | None, typer.Option(help="One lab; without it, all of them.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """What runs, and which cables are in."""
    manage = _as_root()

    def collect() -> list[dict[str, Any]]:
        names = [name] if name else manage.labs()
        return [manage.status(manage.existing(one)) for one in names]

    documents = _tell(collect)
    if as_json:
        typer.echo(json.dumps(documents, indent=2))
        return
    if not documents:
        typer.echo("no lab on this machine; `tandem lab up` makes one")
        return
    table = Table("lab", "host", "address", "power", "disk", "cables")
    for document in documents:
        cables = ", ".join(f"{rail} {state}" for rail, state in document["cables"].items())
        for host in document["hosts"]:
            disk = f"{host['disk_mib']} MiB"
            table.add_row(document["lab"], host["name"], host["address"], host["power"], disk, cables)
            cables = ""
    Console().print(table)


@app.command()
def kill(host: HostName, name: Name = "demo") -> None:
    """Cut a host's power, as pulling the plug does."""
    manage = _as_root()
    _tell(lambda: manage.kill(lab := manage.existing(name), lab.host(host)))


@app.command()
def start(host: HostName, name: Name = "demo") -> None:
    """Switch a host on and wait until it is up."""
    manage = _as_root()
    _tell(lambda: manage.start(lab := manage.existing(name), lab.host(host), _owner(name)))


@app.command()
def reboot(
    hosts: Annotated[list[str], typer.Argument(metavar="HOST...", help="One host or both.")],
    name: Name = "demo",
) -> None:
    """Reboot hosts in good order, all at once, and wait until they are up again."""
    manage = _as_root()
    _tell(
        lambda: manage.reboot(lab := manage.existing(name), [lab.host(host) for host in hosts], _owner(name))
    )


@app.command()
def unplug(rail: Netdev, name: Name = "demo") -> None:
    """Pull a rail's cable: both hosts lose the carrier of that interface."""
    _cable(name, rail, plugged=False)


@app.command()
def plug(rail: Netdev, name: Name = "demo") -> None:
    """Plug a rail's cable in again."""
    _cable(name, rail, plugged=True)


@app.command()
def snapshot(name: Name = "demo") -> None:
    """Keep what both hosts have in memory and on disk (qemu only)."""
    manage = _as_root()
    _tell(lambda: manage.snapshot(manage.existing(name)))


@app.command()
def restore(name: Name = "demo") -> None:
    """Go back to the snapshot, hosts running, clocks set to now."""
    manage = _as_root()
    _tell(lambda: manage.restore(manage.existing(name), _owner(name)))


@app.command()
def put(
    host: HostName,
    source: Annotated[Path, typer.Argument(help="A file or folder of this machine.")],
    target: Annotated[str, typer.Argument(help="Its absolute path on the host.")],
    name: Name = "demo",
) -> None:
    """Copy a file or folder to a host, owned by root there."""
    from tandem.lab import reach

    manage = _as_root()
    _tell(lambda: reach.put(manage.existing(name).host(host), source.absolute(), target, _owner(name)))


@app.command()
def ssh(
    host: HostName,
    command: Annotated[list[str] | None, typer.Argument(help="A command; without it, a shell.")] = None,
    name: Name = "demo",
) -> None:
    """A shell on a host, or one command."""
    config = client_directory(Path.home(), name) / "ssh_config"
    if not config.exists():
        raise _fail(f"there is no lab {name} of yours; `tandem lab up --name {name}` makes it")
    os.execvp("ssh", ["ssh", "-F", str(config), host, *(command or [])])


def _cable(name: str, rail: str, plugged: bool) -> None:
    manage = _as_root()
    _tell(lambda: manage.set_cable(manage.existing(name), rail, plugged))


def _owner(name: str) -> Any:
    """For whom the lab is: the person behind sudo, where there is one."""
    from tandem.lab.client import Owner

    uid = int(os.environ.get("SUDO_UID", os.getuid())) if os.getuid() == 0 else os.getuid()
    entry = pwd.getpwuid(uid)
    home = Path(entry.pw_dir) if uid != os.getuid() else Path.home()
    return Owner(uid=uid, gid=entry.pw_gid, directory=client_directory(home, name))


def _as_root() -> Any:
    """The module that acts; a person who is not root goes through sudo, with the same command."""
    if os.getuid() != 0:
        os.execvp("sudo", ["sudo", sys.executable, "-m", "tandem", *sys.argv[1:]])
    from tandem.lab import manage

    return manage


def _remove_wheels(name: str) -> None:
    import shutil

    home = _owner(name).directory.parents[2]
    shutil.rmtree(home / ".cache" / "tandem" / "wheels", ignore_errors=True)


def _tell(action: Callable[[], Result]) -> Result:
    try:
        return action()
    except LabError as problem:
        raise _fail(str(problem)) from problem


def _fail(message: str) -> typer.Exit:
    typer.echo(f"tandem lab: {message}", err=True)
    return typer.Exit(1)
