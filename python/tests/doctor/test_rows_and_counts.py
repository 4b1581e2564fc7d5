"""Causes that stand in rows and counts beside an error: what their titles and cures say."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.findings.network.ports_left_out import _leaves_out
from busbw.doctor.reading.smi_rows import spelled

from .asked import logs_of, loud

LOGS = logs_of("f141-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        (
            "clock-left-low",
            "the clock of GPU 1 to 210 MHz, and nothing set it back (others: at 1965",
            "let nightsave set",
        ),
        ("heat-of-one", "heat slows GPU 1 down to 930 MHz at 94 degrees", "mend the cooling of GPU 1"),
        ("hot-by-dmon", "heat slows GPU 2 down to 660 MHz at 90 degrees", "mend the cooling of GPU 2"),
        ("default-limit-first", "GPU 1 may draw 400 W of 700 W", "-pl 700"),
        ("manager-of-another-release", "is of 570.172.08, the driver of 570.158.01", "of exactly 570.158.01"),
        ("manager-refuses", "the fabric manager on fen4 is of 565.57.01", "on fen4"),
        ("slow-port-named", "leaves out 2 ports of 200 Gb/s that are up (mlx5_0, mlx5_1)", "No command line here"),
        ("fabric-left-out", "leaves out 3 InfiniBand ports that are up", "(or ^mlx5_bond_0)"),
        ("two-classes-tested", "reaches 193.8 with traffic class (TC) 104, and 41.2 with 0", "NCCL_IB_TC=104"),
        ("level-without-adaptive-routing", "on SL 0, 4 alone (ar_sl_mask), and NCCL's packets go on SL 3", "0x0019"),
        ("tuner-beside-own-protocol", "it puts NCCL_PROTO=simple into the environment", "Nobody exported NCCL_PROTO"),
        ("tuner-beside-users-choice", "since NCCL_PROTO or NCCL_ALGO is set", "unset NCCL_PROTO and NCCL_ALGO"),
        ("shards-of-unequal-size", "rank 1 has 88100, rank 0 88123", "the same number of batches"),
        ("early-way-out", "rank 9 took another branch than the other 15 ranks", "as often as the others"),
        ("shards-still-written", "rank 0 still saves a checkpoint", "async_save"),
        ("faster-last-month", "at 2950 samples/s before, and now at 1201: 2.5 times slower", "what changed since"),
    ],
)
def test_the_first_finding_tells_cause_and_cure(name: str, title: str, fix: str, tmp_path: Path) -> None:
    first = loud(LOGS[name], tmp_path)[0]
    assert title in first.title and fix in first.fix


def test_columns_of_errors_that_did_not_happen_are_left_out() -> None:
    head, row = "index, remapped_rows.failure, ecc.errors.uncorrected.volatile.total", "0, No, 0"
    assert spelled([head, row, "1, Yes, 0"])[1:] == [
        "nvidia-smi says of GPU 0: index: 0",
        "nvidia-smi says of GPU 1: index: 1, remapped_rows.failure: Yes",
    ]


BY_HAND, BY_HEAT = "clocks set by hand", "HW Thermal Slowdown: Active"


@pytest.mark.parametrize(
    ("reasons", "told"),
    [("0x48", BY_HEAT), ("0x2", BY_HAND), ("0x0", BY_HAND), ("0x1", ""), ("0x4", ""), ("[N/A]", "")],
)
def test_a_low_clock_is_somebodys_where_no_other_reason_holds(reasons: str, told: str) -> None:
    head = "index, utilization.gpu [%], clocks.sm [MHz], clocks.max.sm [MHz], clocks_event_reasons.active"
    row = spelled([head, f"0, 99 %, 300 MHz, 1980 MHz, {reasons}"])[1]
    assert [each for each in (BY_HAND, BY_HEAT) if each in row] == [each for each in (told,) if each]


@pytest.mark.parametrize(
    ("value", "name", "out"),
    [
        ("^mlx5_0,mlx5_1", "mlx5_1", True),
        ("^mlx5_0", "mlx5_bond_0", False),
        ("mlx5_0", "mlx5_4", True),
        ("=mlx5_1", "mlx5_10", True),
        ("mlx5_1:1", "mlx5_10", False),
        ("mlx5", "mlx5_3", False),
        ("", "mlx5_3", False),
    ],
)
def test_a_list_of_devices_is_read_as_nccl_does(value: str, name: str, out: bool) -> None:
    assert _leaves_out(value, name) is out
