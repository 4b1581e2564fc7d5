"""One part among many that is at fault: what stands beside an error names the card, NIC, cable or frames."""

from __future__ import annotations

from pathlib import Path

import pytest

from .asked import logs_of, loud

LOGS = logs_of("f152-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("card-that-stops-all", "GPU 2 (0000:89:00) seems faulty: all 3 Xids", "dcgmi diag"),
        ("card-at-one-place", "of it alone (always GPC5 GPCCLIENT_T1_11)", "CUDA_VISIBLE_DEVICES without 2"),
        ("nic-of-few-lanes", "(mlx5_5) of elm2 lies behind a PCIe link of 12 GB/s, the others behind 48", "LnkSta"),
        ("frames-of-a-sweep", "messages of 2048 bytes fail, those of 1024 pass", "MTU of every switch port"),
        ("frames-of-two-mtus", "packets of MTU 4096 fail, those of 1024 pass", "MTU of every switch port"),
        ("cable-under-a-job", "the link of yew5/mlx5_1 has bit errors", "replace the cable"),
    ],
)
def test_what_stands_beside_names_the_part(name: str, title: str, fix: str, tmp_path: Path) -> None:
    (first, *_) = loud(LOGS[name], tmp_path)
    assert title in first.title and fix in first.fix


@pytest.mark.parametrize(
    ("name", "old", "new", "title"),
    [
        # Of one program alone, or on several cards, it may be the program.
        ("card-that-stops-all", "name=gmx", "name=python3", "seems faulty"),
        ("card-that-stops-all", "89:00): 43", "3d:00): 43", "seems faulty"),
        ("card-at-one-place", "pid=1207", "pid=9333", "seems faulty"),
        ("nic-of-few-lanes", "NET[50.0] - NET/0-2", "NET[25.0] - NET/0-2", "lies behind"),
        ("frames-of-a-sweep", "Link type       : Ethernet", "Link type       : IB", "large packets"),
        ("frames-of-two-mtus", "-m 4096", "-m 1024", "large packets"),
    ],
)
def test_without_these_words_nothing_of_it_is_said(name: str, old: str, new: str, title: str, tmp_path: Path) -> None:
    changed = LOGS[name].replace(old, new).replace("name=namd3", "name=python3" if "gmx" in old else "name=namd3")
    assert all(title not in each.title for each in loud(changed, tmp_path))


def test_packets_without_answer_follow_from_the_bad_link_of_one_end(tmp_path: Path) -> None:
    assert [each.name for each in loud(LOGS["cable-under-a-job"], tmp_path)] == ["roce-loss"]
    nobodys = LOGS["cable-under-a-job"].replace("root@yew5:~#", "#")
    assert [each.name for each in loud(nobodys, tmp_path)] == ["roce-loss"]
    other = LOGS["cable-under-a-job"].replace("-d mlx5_1", "-d mlx5_6")
    assert loud(other, tmp_path)[0].name == "ib-retry"
