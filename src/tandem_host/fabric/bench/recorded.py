"""A measurement that was recorded: a tree's ``tandem-fixture/bench``, read where a live host would measure.

``peer.json`` has what the peer says of itself (its entry of ``facts`` in a document).
``TEST-DIRECTION-RAILS-RAIL.txt`` is what the client printed for RAIL when RAILS were measured at once:
``read-in-0+1-0.txt``.
"""

from __future__ import annotations

from tandem_host.fabric.bench import facts
from tandem_host.fabric.bench.figures import Step
from tandem_host.fabric.bench.jobs import Outcome
from tandem_host.findings import UnusableError, error
from tandem_host.host import Host
from tandem_host.strict import parse

FOLDER = "/tandem-fixture/bench"


class Recording:
    """Answers as a session with the peer would."""

    def __init__(self, host: Host, peer: str, rails: int) -> None:
        self._host = host
        file = host.path(f"{FOLDER}/peer.json")
        try:
            self.facts = facts.from_json(parse(host.read(f"{FOLDER}/peer.json") or ""), peer, rails)
        except ValueError as problem:
            text = f"{file} cannot be understood: {problem}."
            fix = "It must be an entry of `facts` in the document of `tandem-host fabric bench`."
            raise UnusableError([error("host.fixture.invalid", text, fix)]) from problem

    def run(self, step: Step) -> list[Outcome]:
        """What was recorded for a step, one outcome a rail."""
        return [self._one(step, rail) for rail in step.rails]

    def _one(self, step: Step, rail: int) -> Outcome:
        together = "+".join(map(str, step.rails))
        name = f"{step.test}-{'out' if step.outward else 'in'}-{together}-{rail}.txt"
        text = self._host.read(f"{FOLDER}/{name}")
        if text is None:
            return Outcome(rail, 1, "", f"{name} was not recorded")
        return Outcome(rail, 0, text, "")
