"""A netplan file without some interfaces: what is left means what it meant."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_host.fabric.layout import yamlnodes

RAILS = ("enp1s0f0np0", "enP2p1s0f0np0")


def cut(text: str, *names: str) -> str:
    """The text without the definitions of these names in any section."""
    doomed = [
        (section, key)
        for _, network in yamlnodes.pairs(yamlnodes.compose(text))
        for _, section in yamlnodes.pairs(network)
        for key, _ in yamlnodes.pairs(section)
        if key.value in names
    ]
    return yamlnodes.without(text, doomed)


def test_lines_go_and_comments_of_the_rest_stay() -> None:
    text = """\
# mine
network:
  version: 2
  ethernets:
    enp1s0f0np0:  # rail
      mtu: 1500

    # management
    enP7s7: {dhcp4: yes}   # do not touch
"""
    assert cut(text, RAILS[0]) == text.replace("    enp1s0f0np0:  # rail\n      mtu: 1500\n", "")


def test_a_section_that_becomes_empty_goes_too() -> None:
    text = (
        "network:\n  version: 2\n  ethernets:\n    enp1s0f0np0:\n      mtu: 1500\n  wifis:\n    w: {x: y}\n"
    )
    assert cut(text, RAILS[0]) == "network:\n  version: 2\n  wifis:\n    w: {x: y}\n"


@pytest.mark.parametrize(
    "text",
    [
        "network: {ethernets: {enp1s0f0np0: {mtu: 9000}, e: {macaddress: 10:22:33:44:55:16, mtu: 010}}}\n",
        "network:\n  ethernets:\n    enp1s0f0np0: &rail\n      mtu: 9000\n    e: *rail\n",
        "network:\n  ethernets:\n    enp1s0f0np0: &r {mtu: 9000}\n    e:\n      <<: *r\n      dhcp4: yes\n",
        'network:\n  ethernets:\n    ? enp1s0f0np0\n    : {mtu: 9000}\n    ? "e"\n    : {mtu: 1}\n',
    ],
    ids=["flow", "an alias of what goes", "a merge of what goes", "explicit keys"],
)
def test_forms_that_cannot_be_cut_by_lines(text: str) -> None:
    wanted = texts(text)["network"]["ethernets"]["e"]
    assert texts(cut(text, RAILS[0])) == {"network": {"ethernets": {"e": wanted}}}


def texts(document: str) -> Any:
    """The document with every scalar as its text, which is how netplan takes it."""
    return yaml.load(document, Loader=yaml.BaseLoader)  # noqa: S506 - it makes texts only


NAMES = st.sampled_from(["e", "enP7s7", "wlan0", "10", "on", "a b", "ü", "x: y", "# no", "-"])
SCALARS = st.one_of(
    st.sampled_from(
        ["yes", "010", "10:22:33:44:55:16", "", "null", "~", "1e3", "a # b", "x: y", "|", "2026-12-03"]
    ),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn", "Co"]), max_size=8),
    st.integers(),
    st.booleans(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
INTERFACES = st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES, max_size=3), max_size=3)


@settings(max_examples=80, deadline=None)
@given(
    before=INTERFACES,
    after=INTERFACES,
    rails=st.dictionaries(st.sampled_from(RAILS), VALUES, min_size=1),
    others=INTERFACES,
    flow=st.sampled_from([None, True, False]),
    indent=st.integers(2, 6),
)
def test_the_others_mean_the_same(
    before: Any, after: Any, rails: Any, others: Any, flow: bool | None, indent: int
) -> None:
    document = {"network": {"version": 2, "ethernets": {**before, **rails, **after}, "wifis": others}}
    text = yaml.safe_dump(
        document, default_flow_style=flow, indent=indent, sort_keys=False, allow_unicode=True
    )
    left = {name: value for name, value in document["network"]["ethernets"].items() if name not in RAILS}
    wanted: dict[str, Any] = {"version": 2, "ethernets": left, "wifis": others}
    if not left:
        del wanted["ethernets"]
    assert yaml.safe_load(cut(text, *RAILS)) == {"network": wanted}
