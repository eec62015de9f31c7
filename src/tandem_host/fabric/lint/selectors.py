"""How NCCL reads the names in ``NCCL_IB_HCA`` and ``NCCL_SOCKET_IFNAME``.

``^`` in front excludes, ``=`` asks for exact names, else a name is the beginning of one; ``:port`` narrows
it to one port.
"""

from __future__ import annotations

from dataclasses import dataclass

from tandem_host.fabric.hcas import HcaPort


@dataclass(frozen=True)
class Selector:
    """A parsed value; ``items`` are names with a port, or None for any port."""

    exclude: bool
    exact: bool
    items: tuple[tuple[str, int | None], ...]

    def chosen(self, ports: tuple[HcaPort, ...]) -> tuple[HcaPort, ...]:
        """The ports that NCCL would consider, whatever their state."""
        return tuple(port for port in ports if self.matches(port.hca, port.port) is not self.exclude)

    def matches(self, name: str, port: int | None = None) -> bool:
        """Whether one of the items stands for this name (and port)."""
        return any(self.fits(item, name, port) for item in self.items)

    def fits(self, item: tuple[str, int | None], name: str, port: int | None = None) -> bool:
        """Whether one item stands for this name (and port)."""
        wanted, wanted_port = item
        named = name == wanted if self.exact else name.startswith(wanted)
        return named and wanted_port in (None, port)


def parse(value: str) -> Selector:
    """The selector of a value that is not empty."""
    exclude = value.startswith("^")
    rest = value.removeprefix("^")
    exact = rest.startswith("=")
    items = [_item(part.strip()) for part in rest.removeprefix("=").split(",") if part.strip()]
    return Selector(exclude, exact, tuple(items))


def _item(text: str) -> tuple[str, int | None]:
    name, separator, port = text.rpartition(":")
    return (name, int(port)) if separator and port.isdecimal() else (text, None)
