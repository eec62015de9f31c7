"""The verdict on a measurement: one class, and a finding for everything that is not as it should be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tandem_host.fabric.bench import advice, ratings
from tandem_host.fabric.bench.facts import Facts
from tandem_host.fabric.bench.figures import LATENCY, TCP, Figure
from tandem_host.findings import Finding, error, info, warning


@dataclass(frozen=True)
class Wanted:
    """What a measurement is judged by: the fabric's kind, its number of rails, and Gb/s a rail if given."""

    kind: str
    rails: int
    gbps: float | None

    @property
    def judged(self) -> bool:
        """Whether there is anything to judge by: the bands are those of ConnectX-7."""
        return self.kind == "roce" or self.gbps is not None


def classes(wanted: Wanted, figures: Sequence[Figure]) -> dict[Figure, str]:
    """The class of every figure by itself."""
    return {item: _class(wanted, item, figures) for item in figures}


def _class(wanted: Wanted, figure: Figure, figures: Sequence[Figure]) -> str:
    rdma = wanted.kind == "roce"
    if figure.test == LATENCY:
        if not rdma:
            return ratings.UNRATED
        return ratings.GOOD if figure.value <= ratings.LATENCY_US else ratings.LOW
    # TCP over verbs hardware measures the processor, so it is shown and not judged there.
    if not wanted.judged or (figure.test == TCP) != (wanted.kind == "ethernet"):
        return ratings.UNRATED
    if len(figure.rails) == 1:
        return ratings.rail(figure.value, wanted.gbps, rdma)
    rivals = [
        item.value
        for item in figures
        if len(item.rails) == 1 and (item.test, item.source) == (figure.test, figure.source)
    ]
    if wanted.gbps is not None or not rivals:
        return ratings.UNRATED
    return ratings.together(figure.value, max(rivals))


def judge(wanted: Wanted, figures: Sequence[Figure], both: Sequence[Facts]) -> tuple[str, list[Finding]]:
    """The class of the pair and the findings; ``both`` are the facts of this host and of the peer."""
    place = both[0].host
    if not wanted.judged:
        text = f"{place}: figures over {wanted.kind} are not rated: they say that the path works."
        return ratings.UNRATED, [
            info("fabric.bench.unrated", text, "Give --expect-gbps to have them judged.")
        ]
    each = {
        item: name
        for item, name in classes(wanted, figures).items()
        if name != ratings.UNRATED and item.test != LATENCY
    }
    alone = {item: name for item, name in each.items() if len(item.rails) == 1}
    findings = _slow(alone, wanted, both)
    names = list(alone.values())
    if 0 < len({item.rails for item in alone}) < wanted.rails:
        names.append(ratings.ONE_RAIL)  # the others failed, and there is a finding for each
    if wanted.gbps is None:
        name, found = _together(wanted, each, both)
        names += name
        findings += found
    if wanted.kind == "roce":
        findings += _latency(figures, both)
    return ratings.worst(names), findings


def _slow(classes: dict[Figure, str], wanted: Wanted, both: Sequence[Facts]) -> list[Finding]:
    slow = [item for item, name in classes.items() if name != ratings.GOOD]
    one_sided = _one_sided(classes, slow) if wanted.kind == "roce" else None
    if one_sided:
        return [_asymmetric(one_sided, slow, classes, both)]
    expected = wanted.gbps or next(start for start, name in ratings.RAIL_GBPS if name == ratings.GOOD)
    found = []
    for rail in sorted({item.rails for item in slow}):
        mine = [item for item in slow if item.rails == rail]
        name = ratings.worst(classes[item] for item in mine)
        text = f"{_rail(both[0], rail[0])}: {_listed(mine)} Gb/s, wanted {expected:g}"
        found.append(advice.finding(name, text, advice.hints(both, rail)))
    return found


def _one_sided(classes: dict[Figure, str], slow: Sequence[Figure]) -> str | None:
    """The host from which all slow figures come, if those from the other host are good on the same rails."""
    sources = {item.source for item in slow}
    rails = {item.rails for item in slow}
    others = {
        item.rails for item, name in classes.items() if name == ratings.GOOD and item.source not in sources
    }
    return sources.pop() if len(sources) == 1 and rails <= others else None


def _asymmetric(
    source: str, slow: Sequence[Figure], classes: dict[Figure, str], both: Sequence[Facts]
) -> Finding:
    rails = sorted({item.rails[0] for item in slow})
    facts = next(item for item in both if item.host == source)
    names = " and ".join(_device(facts, rail) for rail in rails)
    good = [item.value for item, name in classes.items() if name == ratings.GOOD and item.source != source]
    differs = advice.iommu_difference(both, rails)
    text = (
        f"{source}: data that leaves it through {names} is slow ({_listed(slow)} Gb/s), data towards it is "
        f"not ({min(good):.1f} Gb/s and more): usually its IOMMU translates and the other host's does not."
    )
    if differs:
        text += f" Seen: {differs[0]}."
    look = f"cat /sys/class/net/{facts.rails[rails[0]].netdev}/device/iommu_group/type"
    fix = (
        f"Compare on both hosts: {look}; take iommu.passthrough=0 off the kernel's command line of {source}."
    )
    return error("fabric.bench.asymmetric", text, fix)


def _together(
    wanted: Wanted, each: dict[Figure, str], both: Sequence[Facts]
) -> tuple[list[str], list[Finding]]:
    place = both[0].host
    if wanted.rails == 1:
        text = f"{place}: the inventory has one rail: half of what a cable of two carries."
        fix = "Add the second function of the cage to tandem_rails, in a subnet of its own."
        return [ratings.ONE_RAIL], [warning("fabric.bench.single", text, fix)]
    slow = {item: name for item, name in each.items() if name != ratings.GOOD}
    if not slow or any(len(item.rails) == 1 for item in slow):
        return [], []  # a rail that is slow alone is the news
    name = ratings.worst(slow.values())
    rails = range(wanted.rails)
    text = (
        f"{place}: all rails together {_listed(slow)} Gb/s, "
        f"wanted {ratings.PAIR_GBPS:g}, though each is good alone"
    )
    return [name], [advice.finding(name, text, advice.hints(both, rails))]


def _latency(figures: Iterable[Figure], both: Sequence[Facts]) -> list[Finding]:
    found = []
    for figure in figures:
        if figure.test == LATENCY and figure.value > ratings.LATENCY_US:
            text = (
                f"{_rail(both[0], figure.rails[0])}: {figure.value:.2f} us to {figure.target}, "
                f"wanted {ratings.LATENCY_US:g} at most (1.4 to 1.8 on a cable)."
            )
            fix = "Is a switch between them, or something else running? Measure again; docs/slow-link.md."
            found.append(warning("fabric.bench.latency", text, fix))
    return found


def _device(facts: Facts, rail: int) -> str:
    here = facts.rails[rail]
    return f"{here.netdev} ({here.hca})" if here.hca else here.netdev


def _rail(facts: Facts, rail: int) -> str:
    return f"{facts.host}: rail {rail}, {_device(facts, rail)}"


def _listed(figures: Iterable[Figure]) -> str:
    return ", ".join(f"{item.test} {item.source} -> {item.target} {item.value:.2f}" for item in figures)
