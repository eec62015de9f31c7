"""``tandem demo``: two virtual Sparks on this machine, from bare hosts to a completion."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tandem.lab.client import Owner
from tandem.lab.reach import ask as ask_host
from tandem.lab.spec import HOST_NAMES, Lab, client_directory

app = typer.Typer(help="Two virtual Sparks on this machine: up, down.", no_args_is_help=True)

PROJECT = Path(__file__).parents[2]
MODEL_NAME = "tandem-demo"
MODEL_ON_HEAD = f"/srv/models/{MODEL_NAME}"
API_PORT = 8888
QUESTION = "Who is answering?"

Name = Annotated[str, typer.Option(help="Name of the lab.")]
Network = Annotated[str, typer.Option(help="First three parts of its management network, such as 10.231.7.")]


@dataclass
class Clock:
    """What each stage took, in the order of the run; seconds."""

    stages: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time one stage, whether it succeeds or not."""
        since = time.monotonic()
        try:
            yield
        finally:
            self.stages.append((name, time.monotonic() - since))


@app.command()
def up(name: Name = "demo", network: Network = "10.231.7") -> None:
    """Make two virtual Sparks, run site.yml against them and ask the server a question."""
    console = Console()
    clock = Clock()
    environment = _environment(name, network)
    with clock.stage("two virtual Sparks"):
        lab(name, network)
    with tempfile.TemporaryDirectory() as scratch:
        stages_file = Path(scratch) / "stages.json"
        outcome = subprocess.run(
            ["ansible-playbook", "-i", "inventory/lab", "site.yml"],
            cwd=PROJECT,
            env={**environment, "TANDEM_STAGES_FILE": str(stages_file)},
            check=False,
        )
        if stages_file.exists():
            clock.stages += [
                (stage["name"], stage["seconds"])
                for stage in json.loads(stages_file.read_text(encoding="utf-8"))
            ]
    if outcome.returncode != 0:
        console.print(
            f"[red]site.yml ended with {outcome.returncode}.[/red] Its last message says what to do; "
            "`make demo` goes on where it stopped, `make demo-down` removes the hosts."
        )
        raise typer.Exit(outcome.returncode)
    made = Lab(name, network)
    url = f"http://{made.hosts[0].address}:{API_PORT}"
    with clock.stage("a completion"):
        answer = ask(url)
    _report(console, made, url, answer, clock)


@app.command()
def lab(name: Name = "demo", network: Network = "10.231.7") -> None:
    """Only the hosts: two virtual Sparks, the head with the demo model in a directory of its own."""
    from tandem.demo_model.build import write_model

    _tandem("lab", "up", "--name", name, "--network", network)
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / MODEL_NAME
        write_model(model, seed=0)
        _tandem("lab", "put", "--name", name, HOST_NAMES[0], str(model), MODEL_ON_HEAD)


@app.command()
def down(name: Name = "demo") -> None:
    """Stop the hosts and remove them. The caches stay; `tandem lab down --purge` removes these too."""
    _tandem("lab", "down", "--name", name)


def ask(url: str, question: str = QUESTION) -> dict[str, Any]:
    """One chat completion through ``url``; the answer of ``tandem-host probe completion``.

    Raises ``typer.Exit`` with its status where no completion comes back.
    """
    outcome = subprocess.run(
        [
            *(sys.executable, "-m", "tandem_host", "probe", "completion", "--url", url),
            *("--model", MODEL_NAME, "--prompt", question, "--max-tokens", "64", "--deadline", "60"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if outcome.returncode != 0:
        sys.stderr.write(outcome.stdout + outcome.stderr)
        raise typer.Exit(outcome.returncode)
    document: dict[str, Any] = json.loads(outcome.stdout)
    return document


def _tandem(*arguments: str) -> None:
    outcome = subprocess.run([sys.executable, "-m", "tandem", *arguments], check=False)
    if outcome.returncode != 0:
        raise typer.Exit(outcome.returncode)


def _environment(name: str, network: str) -> dict[str, str]:
    return {
        **os.environ,
        "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
        "TANDEM_LAB_NAME": name,
        "TANDEM_LAB_NETWORK": network,
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
    }


def _on_host(lab: Lab, host: str) -> dict[str, Any]:
    """What ``tandem-host rank status`` says on one host; an empty answer where the host gives none."""
    owner = Owner(os.getuid(), os.getgid(), client_directory(Path.home(), lab.name))
    command = "/opt/tandem/libexec/tandem-host rank status --serve /etc/tandem/serve.json"
    try:
        document: dict[str, Any] = json.loads(ask_host(owner, lab.host(host), command))
    except ValueError:
        return {}
    return document


def _release(status: dict[str, Any]) -> str:
    release = status.get("running_release") or {}
    return f"{release.get('name', '?')}-{release.get('digest', '?')}"


def _report(console: Console, lab: Lab, url: str, answer: dict[str, Any], clock: Clock) -> None:
    where = Table("host", "rank", "process", "release", title="What runs where", title_justify="left")
    for host in HOST_NAMES:
        status = _on_host(lab, host)
        where.add_row(
            host,
            f"{status.get('rank', '?')}{' (API)' if status.get('rank') == 0 else ''}",
            str(status.get("pid", "?")),
            _release(status),
        )
    times = Table("stage", "seconds", title="What took how long", title_justify="left")
    times.columns[1].justify = "right"
    started = os.environ.get("TANDEM_STARTED_AT")
    if started:
        setup = time.time() - float(started) - sum(seconds for _, seconds in clock.stages)
        clock.stages.insert(0, ("control environment", max(setup, 0.0)))
    for stage, seconds in clock.stages:
        times.add_row(stage, f"{seconds:.1f}")
    times.add_section()
    times.add_row("all", f"{sum(seconds for _, seconds in clock.stages):.1f}")
    console.print()
    console.print(where)
    console.print(times)
    console.print(f"Endpoint    {url}/v1  (model {MODEL_NAME})")
    console.print(f"Question    {QUESTION}")
    console.print(f"Answer      {answer.get('text', '').strip()}")
    payload = json.dumps({"model": MODEL_NAME, "messages": [{"role": "user", "content": QUESTION}]})
    console.print("Ask it      ", end="")
    console.print(
        f"curl {url}/v1/chat/completions -H 'Content-Type: application/json' -d '{payload}'",
        soft_wrap=True,
        markup=False,
        highlight=False,
    )
    console.print(f"Look inside ssh -F ~/.tandem/lab/{lab.name}/ssh_config spark-a", highlight=False)
    console.print("Stop it     make demo-down", highlight=False)
