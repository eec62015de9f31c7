"""What the readers of configuration give to the plan: files that configure rails, and what was not clear."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from tandem_host.findings import Finding, error
from tandem_host.host import Host

NETPLAN, NETWORKMANAGER, NETWORKD, IFUPDOWN = "netplan", "networkmanager", "networkd", "ifupdown"


@dataclass(frozen=True)
class Setting:
    """How a file configures one rail; ``method`` is static, link-local, dhcp or none. ``mtu`` in bytes."""

    netdev: str
    method: str
    addresses: tuple[str, ...] = ()
    mtu: str | None = None


@dataclass(frozen=True)
class Claim:
    """A file that configures rails.

    ``part`` is the text of what it says of them, ``rest`` the file without that (None: nothing is left, the
    file goes as a whole), ``links`` the bonds and bridges that go with it, ``settings`` one a rail.
    """

    path: str
    kind: str
    settings: tuple[Setting, ...]
    part: str
    rest: str | None = None
    links: tuple[str, ...] = ()

    @property
    def netdevs(self) -> tuple[str, ...]:
        """The rails that it configures."""
        return tuple(setting.netdev for setting in self.settings)


@dataclass
class Reading:
    """What one kind of configuration says of the rails."""

    claims: list[Claim] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def unclear(self, host: Host, path: str, line: int, what: str, fix: str) -> None:
        """An error that stops before any change: a person must say what is meant."""
        text = f"{host.name}: {path}:{line} {what}."
        self.findings.append(error("fabric.layout.unclear", text, fix))


@dataclass(frozen=True)
class Rail:
    """What a match may ask of an interface; ``driver`` and ``mac`` None where the kernel does not say."""

    netdev: str
    mac: str | None
    driver: str | None

    def has_mac(self, text: str) -> bool:
        """Whether it may have this hardware address."""
        return self.mac is None or self.mac.lower() == text.strip().lower().replace("-", ":")

    def has_driver(self, patterns: Sequence[str]) -> bool:
        """Whether one of these patterns may be its driver."""
        return self.driver is None or any(fnmatch.fnmatchcase(self.driver, item) for item in patterns)

    def is_named(self, patterns: Sequence[str]) -> bool:
        """Whether one of these patterns is its name."""
        return any(fnmatch.fnmatchcase(self.netdev, item) for item in patterns)


def rail(host: Host, netdev: str) -> Rail:
    """What the kernel says of a rail."""
    base = f"/sys/class/net/{netdev}"
    try:
        driver = os.path.basename(os.readlink(host.path(f"{base}/device/driver")))  # noqa: PTH115, PTH119
    except OSError:
        driver = None
    return Rail(netdev, host.read(f"{base}/address") or None, driver)


def is_glob(text: str) -> bool:
    """Whether a name is a pattern."""
    return any(character in text for character in "*?[!")
