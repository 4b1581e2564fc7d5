"""Limits, names, rails, ports and switches beside an error name its cause; without them nothing is claimed."""

from __future__ import annotations

from pathlib import Path

import pytest

from .asked import is_claimed, is_told_first, logs_of

LOGS = logs_of("f166-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("limit-of-slurmd", "slurmd on heron7 has LimitMEMLOCK=8388608", "on heron7: systemctl edit slurmd"),
        ("unit-without-limit", "the unit of slurmd has no LimitMEMLOCK", "on all nodes: systemctl edit slurmd"),
        ("limit-of-process", "slurmd on ox2 has a limit of 65536 bytes", "on ox2: systemctl edit slurmd"),
        ("service-of-another-name", "its service is bert (by its own whole name)", "MASTER_ADDR=bert-node-0-0.bert,"),
        ("one-headless-service", "its service is vit-peers", "MASTER_ADDR=vit-worker-0.vit-peers,"),
        ("other-namespace", "its namespace is research", "MASTER_ADDR=t5-0.t5.research,"),
        ("bad-end-of-all", "the link of mlx5_2 on finch3 is bad", "NCCL_IB_HCA=^mlx5_2"),
        ("end-of-all-uncounted", "between finch3 (10.44.2.3), mlx5_2, and 3 other hosts", "on finch3 look at the link"),
        ("port-of-other-user", "of user tomas, another job of this host", "Leave the other job alone"),
        ("port-of-colleague", "another job of this host, which runs", "Leave the other job alone"),
        ("addresses-beside-ray", "172.30.4.11, 172.30.4.12 of the default route", "its own address of 10.9.0.x"),
        (
            "rail-of-one-host",
            "the rail of ens6np0 (mlx5_1) on teal4 (10.77.1.4)",
            "the switch port of ens6np0 on teal4",
        ),
        ("pings-of-a-loop", "the network loses what 10.77.1.4 sends to 10.77.1.1", "10.77.1.4 to 10.77.1.1 mended"),
        ("devices-withheld-by-enroot", "MELLANOX_VISIBLE_DEVICES=void", "MELLANOX_VISIBLE_DEVICES=all"),
        ("peermem-not-loaded", "nvidia_peermem is not loaded on wren1, and kernel 5.4", "modprobe nvidia-peermem"),
        ("switch-without-pfc", "the switch spine1 is not set for RoCE", "map DSCP 26 to priority 3"),
        ("name-of-the-agent", "its host's own name, lynx.lan", "--local-addr=ITS_OWN_ADDRESS (10.20.8.31"),
    ],
)
def test_what_is_shown_beside_an_error_sharpens_it(name: str, title: str, fix: str, tmp_path: Path) -> None:
    assert is_told_first(LOGS[name], tmp_path, title, fix)


@pytest.mark.parametrize(
    ("name", "old", "new", "lost"),
    [
        ("limit-of-slurmd", "=8388608", "=infinity", "hands"),
        ("unit-without-limit", "LimitNOFILE=131072", "LimitMEMLOCK=infinity", "has no LimitMEMLOCK"),
        ("unit-without-limit", ": 65536", ": unlimited", "has no LimitMEMLOCK"),
        ("limit-of-process", "65536                65536", "unlimited            unlimited", "hands"),
        ("service-of-another-name", "0-0.bert.nlp", "0-0.bert-node.nlp", "and its service is"),
        ("one-headless-service", "10.96.4.11 ", "None ", "and its service is"),
        ("other-namespace", "t5.research", "t5.default", "and its namespace is"),
        ("bad-end-of-all", "localGid ::ffff:10.44.2.2 remoteGids::ffff:10.44.2.3",
         "localGid ::ffff:10.44.2.2 remoteGids::ffff:10.44.2.7", "have that end"),
        ("port-of-other-user", "tomas ", "mira ", "of user"),
        ("port-of-colleague", "is using", "was using", "another job of this host"),
        ("addresses-beside-ray", "4 unique IP", "2 unique IP", "for 2 nodes"),
        ("rail-of-one-host", "10.77.1.2 FAILED", "10.77.1.2 lladdr a0:88:c2:00:00:12 REACHABLE", "peers there, while"),
        ("pings-of-a-loop", "0 received, 100%", "2 received, 0%", "the network loses"),
        ("devices-withheld-by-enroot", "DEVICES=void", "DEVICES=all", "enroot gives it none"),
        ("peermem-not-loaded", "nvidia_uvm  ", "nvidia_peermem 16384 0\nnvidia_uvm  ", "is not loaded"),
        ("peermem-not-loaded", "5.4.0-150-generic", "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid",
         "is not loaded on"),
        ("switch-without-pfc", " pfc: disabled", " pfc: on", "is not set for RoCE"),
        ("switch-without-pfc", "q0: 4410022", "q0: 0", "is not set for RoCE"),
        ("name-of-the-agent", "master_addr=lynx.lan", "master_addr=10.20.8.31", "first agent"),
    ],
)  # fmt: skip
def test_without_its_evidence_nothing_is_claimed(name: str, old: str, new: str, lost: str, tmp_path: Path) -> None:
    assert old in LOGS[name]
    assert not is_claimed(lost, LOGS[name].replace(old, new), tmp_path)
