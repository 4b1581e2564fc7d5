"""An RDMA test between two hosts that stays far below the rate that the log tells of the port."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.base.secrets import shortened
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reading.shown import Shown
from busbw.doctor.signature import Stage

NAME = "perftest-slow"
_HEAD = re.compile(r"#bytes\s+#iterations\s+BW peak\[[\w/]{4,8}\]\s+BW average\[(?P<unit>Gb/sec|MB/sec|MiB/sec)\]")
_ROW = re.compile(
    r"\s{0,8}(?P<bytes>\d{1,10})\s+\d{1,9}\s+[\d.]{1,12}\s+(?P<average>\d{1,7}(?:\.\d{1,4})?)\s+[\d.]{1,12}\s*$"
)
_RATE = re.compile(
    r"(?:^|[\s:])(?:Rate:\s{0,12}(?P<a>\d{2,4})\s*$|rate:\s{1,12}(?P<b>\d{2,4}) Gb/sec"
    r"|(?:Speed|Link speed): (?P<c>\d{4,6})Mb/s)"
)
LEAST_BYTES, SHARE = 32 << 10, 0.5
_TO_GBPS = {"Gb/sec": 1.0, "MB/sec": 8 * 1.048576e-3, "MiB/sec": 8 * 1.048576e-3}


def examine(facts: Facts) -> Iterator[Finding]:
    rates = [rate for shown in facts.shown for rate in _rates(shown)]
    # Ports of several rates do not tell which of them was tested: the slowest is sure.
    if not rates:
        return
    for shown in facts.shown:
        best = max(_averages(shown), key=lambda each: each[0], default=None)
        if best is not None and best[0] < SHARE * min(rates):
            yield _finding(best[0], min(rates), best[1])


def _rates(shown: Shown) -> Iterator[float]:
    for line in shown.lines:
        if ("ate:" in line or "peed:" in line) and (found := _RATE.search(line)):
            yield float(found["a"] or found["b"]) if not found["c"] else float(found["c"]) / 1000


def _averages(shown: Shown) -> Iterator[tuple[float, Evidence]]:
    """Gb/s of each row of large messages."""
    unit = ""
    for number, line in enumerate(shown.lines, 1):
        if "#bytes" in line:
            head = _HEAD.search(line)
            unit = head["unit"] if head else ""
        elif unit and (row := _ROW.match(line)) and int(row["bytes"]) >= LEAST_BYTES:
            yield float(row["average"]) * _TO_GBPS[unit], Evidence(shortened(line.strip(), 120), shown.source, number)


def _finding(best: float, rate: float, seen: Evidence) -> Finding:
    return Finding(
        NAME, Severity.WARNING,
        f"RDMA between two hosts reaches {best:.3g} Gb/s over a port of {rate:g} Gb/s",
        (seen,), Cost("traffic between hosts is slow by as much", rate / best if best else None, "the port's rate"),
        "look at the PCIe link of the NIC (lspci -vv: LnkSta; MaxReadReq 4096), and at errors and lanes of the port "
        "(mlxlink -d DEVICE -m -c). Then look at lost packets (ethtool -S, PFC and ECN for RoCE). Run it bound to the "
        "NIC's NUMA node, with several queue pairs (-q 4) and 1 MiB messages",
        Proof(instruction="ib_write_bw -d DEVICE -q 4 -s 1048576 --report_gbits, then between two other hosts"),
        stage=Stage.FAILURE,
    )  # fmt: skip
