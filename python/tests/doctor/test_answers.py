"""Answers of machines are told together with their questions, and those of healthy machines are left as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.reading.answers import told

from .test_corpus import loud

KEYS = "$ cat /sys/class/infiniband/mlx5_0/ports/1/pkeys/0"
PFC = ["PFC configuration:", "\tpriority    0   1   2   3   4   5   6   7"]


SMALL = ["$ ping -c 3 n2", "3 packets transmitted, 3 received, 0% packet loss"]


@pytest.mark.parametrize(
    ("size", "came", "says"),
    [(8972, 0, True), (8972, 3, False), (1472, 0, False), (56, 0, False)],
    ids=["jumbo lost", "jumbo came", "small lost", "usual lost"],
)
def test_a_ping_tells_of_the_mtu_by_the_size_in_its_command(size: int, came: int, says: bool, tmp_path: Path) -> None:
    lines = [*SMALL, f"$ ping -M do -s {size} -c 3 n2", f"3 packets transmitted, {came} received, 9% packet loss"]
    assert [each.name for each in loud("\n".join(lines) + "\n", tmp_path)] == ["mtu-path"] * says


def test_where_small_packets_are_lost_too_the_size_is_not_the_reason(tmp_path: Path) -> None:
    lost = "3 packets transmitted, 0 received, 100% packet loss"
    lines = ["$ ping -s 8972 n2", lost, "$ ping -c 3 n2", lost]
    assert "mtu-path" not in [each.name for each in loud("\n".join(lines) + "\n", tmp_path)]


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [("0x8011", "0x8012", True), ("0x8011", "0x8011", False), ("0x7fff", "0x8012", False), ("0xffff", "0xffff", False)],
)
def test_hosts_without_a_common_partition(first: str, second: str, says: bool) -> None:
    lines = [KEYS.replace("$", "n1$"), first, KEYS.replace("$", "n2$"), second]
    found = told(lines)
    assert (found != lines) == says
    assert not says or (first in found[-1] and second in found[-1])


def test_the_key_in_a_message_shows_the_membership() -> None:
    found = told([KEYS, "n1: 0x8001", "n2: 0xffff"])
    assert found[-1].endswith("n1 0x8001, n2 0xffff")


@pytest.mark.parametrize("on", [0, 1])
def test_flow_control_is_off_where_no_priority_has_it(on: int) -> None:
    row = f"\tenabled     0   0   0   {on}   0   0   0   0"
    assert (told([*PFC, row])[-1] == row) == bool(on)


def test_counters_read_by_a_list_of_names_get_them_back() -> None:
    lines = ["$ cat /sys/x/hw_counters/{out_of_sequence,packet_seq_err}", "12", "7", "9"]
    assert told(lines) == [lines[0], "out_of_sequence: 12", "packet_seq_err: 7", "9"]
