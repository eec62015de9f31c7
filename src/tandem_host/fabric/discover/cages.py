"""Cages: the holes that a cable goes into, each of which may show as several interfaces.

A ConnectX-7 of a Spark shows each cage twice, once in each of two PCI domains: 0000:01:00.0 and 0002:01:00.0
are one cage, 0000:01:00.0 and 0000:01:00.1 are two. So neither the slot nor the place in a list tells them
apart, but the port's name on the card does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tandem_host.fabric.devices import Netdev, in_rail_order


@dataclass(frozen=True)
class Cage:
    """One cage; ``card`` is what its card is called, ``netdevs`` are in rail order.

    ``source`` says how it is known: ``phys_port_name``, or ``pci_function`` where a driver names no ports.
    """

    card: str
    name: str
    netdevs: tuple[Netdev, ...]
    source: str

    @property
    def cabled(self) -> bool | None:
        """Whether the cage sees a signal; None while no interface of it can say so (all are set down)."""
        carriers = {item.carrier for item in self.netdevs}
        if True in carriers:
            return True
        return None if None in carriers else False

    def as_json(self) -> dict[str, Any]:
        """The cage as ``fabric discover`` shows it."""
        return {
            "cage": self.name,
            "card": self.card,
            "cabled": self.cabled,
            "netdevs": [item.name for item in self.netdevs],
            "pci": [item.pci for item in self.netdevs],
            "source": self.source,
        }


def group(netdevs: Sequence[Netdev], image_guids: Mapping[str, str]) -> tuple[Cage, ...]:
    """The cages of all cards, by card and name; ``image_guids``: a card's own number by interface."""
    found = []
    for card in _cards(netdevs, image_guids):
        named = len(card) > 1 and any(item.switch_id or item.name in image_guids for item in card)
        ports: dict[str, list[Netdev]] = {}
        for item in card:
            port = item.port_name or (f"p{item.position[3]}" if named and item.position else None)
            if port:
                ports.setdefault(port, []).append(item)
        first = card[0]
        name = image_guids.get(first.name) or first.switch_id or first.pci or first.name
        for port, members in sorted(ports.items()):
            source = "phys_port_name" if all(item.port_name for item in members) else "pci_function"
            found.append(Cage(name, port, in_rail_order(members), source))
    return tuple(found)


def _cards(netdevs: Sequence[Netdev], image_guids: Mapping[str, str]) -> list[list[Netdev]]:
    """The interfaces that are ports of one card, in rail order."""
    cards: list[list[Netdev]] = []
    for item in in_rail_order(netdevs):
        mine = [card for card in cards if any(_one_card(item, other, image_guids) for other in card)]
        cards = [card for card in cards if card not in mine]
        cards.append([*(other for card in mine for other in card), item])
    return [list(in_rail_order(card)) for card in cards]


def _one_card(here: Netdev, there: Netdev, image_guids: Mapping[str, str]) -> bool:
    guids = image_guids.get(here.name), image_guids.get(there.name)
    if all(guids):
        return guids[0] == guids[1]
    if here.switch_id and there.switch_id:
        return here.switch_id == there.switch_id
    # Neither says which card it is. The two halves of a Spark's card have the same number in two domains.
    if here.position is None or there.position is None or here.device_id != there.device_id:
        return False
    return here.position[1:3] == there.position[1:3]
