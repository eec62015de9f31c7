"""What perftest 6.06 and iperf3 3.12 print, recorded in the lab, and what is made of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tandem_host.fabric.bench import outputs
from tandem_host.fabric.bench.figures import LATENCY, READ, TCP, WRITE

HEADING = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]\n"
DATA = Path(__file__).with_name("data")


def recorded(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("test", "file", "figure"),
    [
        (WRITE, "ib_write_bw.txt", 0.18),  # the average, not the peak, which is 0.00 with -D
        (READ, "ib_read_bw.txt", 0.14),
        (LATENCY, "ib_write_lat.txt", 246.25),  # the typical time, not the least or the average
        (TCP, "iperf3.json", 32.8628),
    ],
)
def test_a_recorded_output_has_its_figure(test: str, file: str, figure: float) -> None:
    assert outputs.value(test, recorded(file)) == pytest.approx(figure, abs=0.0001)


def test_a_table_of_a_spark() -> None:
    text = recorded("ib_write_bw.txt").replace(
        "343              0.00               0.18", "1278720          111.90             111.72"
    )
    assert outputs.value(WRITE, text) == pytest.approx(111.72)


def test_the_last_row_counts_and_columns_are_found_by_their_names() -> None:
    text = (
        " #bytes     #iterations    BW average[Gb/sec]    BW peak[Gb/sec]   MsgRate[Mpps]\n"
        " 32768      10              50.00               90.00              0.1\n"
        " 65536      10              60.00               90.00              0.1\n"
    )
    assert outputs.value(WRITE, text) == pytest.approx(60)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no table"),
        ("Couldn't connect to 10.0.0.2:29523\n", "no table"),
        (HEADING, "is empty"),
        (
            " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]\n 65536 9 1.0 1.0\n",
            "another unit",
        ),
        (f"{HEADING} 65536 343 0.00\n", "cut off"),
        (
            " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]\n 65536 343 0.00 nan\n",
            "cannot be",
        ),
        (
            " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]\n 65536 0 0.00 0.00\n",
            "cannot be",
        ),
        (f"{HEADING} 65536 343 0 x\n", "float"),
        (" #bytes     #iterations    tps\n 65536 343 0.1\n", "no column BW average"),
    ],
)
def test_a_bandwidth_that_is_none(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        outputs.value(WRITE, text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON"),
        ("iperf3: error - unable to connect", "no JSON"),
        ("[" * 5000, "no JSON"),
        ("[]", "no JSON object"),
        ("{}", "has no end.sum_received"),
        ('{"end": {"sum_received": {"bits_per_second": "fast"}}}', "has no end.sum_received"),
        ('{"end": {"sum_received": {"bits_per_second": NaN}}}', "cannot be"),
        ('{"end": {"sum_received": {"bits_per_second": 0}}}', "cannot be"),
        ('{"end": {"sum_received": {"bits_per_second": 1e99}}}', "cannot be"),
    ],
)
def test_an_answer_of_iperf_that_is_none(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        outputs.value(TCP, text)


def test_iperf_says_why_it_failed_and_ends_with_0_nonetheless() -> None:
    text = recorded("iperf3-refused.json")
    assert outputs.complaint(TCP, text) == "unable to connect to server: Connection refused"
    assert outputs.complaint(TCP, recorded("iperf3.json")) == ""
    assert outputs.complaint(TCP, "killed") == outputs.complaint(WRITE, text) == ""


def test_what_others_said_is_shown_printable_and_short() -> None:
    assert outputs.printable("\x1b[31mred\n" + "x" * 1000) == "[31mred " + "x" * 491
