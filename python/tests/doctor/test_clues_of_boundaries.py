"""Where ranks part: at the end of an epoch, at a save that is due, at the end; and whose address leads nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.signatures.hardware.fabric_degraded import states_of

from .asked import is_claimed, is_told_first, logs_of

LOGS = logs_of("f184-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("save-due-at-step", "stands at step 200, where an evaluation and a checkpoint are due", "Under ZeRO-3"),
        ("end-of-epoch", "at the end of an epoch (811 of 812 steps)", "drop_last=True"),
        ("peer-told-a-bridge", "172.20.0.1 is the address that the peer (10.66.3.12) told", "look at 10.66.3.12, not"),
        ("crash-at-exit", "crashed as it ended (pure virtual method called), after its work", "stop the profiler"),
        ("few-lose-a-peer", "in the midst of the work worker 5 lost", "--xla_gpu_nccl_terminate_on_error=true"),
        ("hip-ipc", "hipIpcGetMemHandle fails", "amd_iommu=on iommu=pt"),
        ("more-ranks-than-gpus", "names no hosts, so that all 6 ranks start on ox-a", "-H ox-a:3,ox-b:3"),
        ("fabric-mask", "its routes are being recovered; too few NVLinks are up", "drain the host"),
        ("fabric-listing", "Summary: Limited Capacity; Bandwidth: Degraded; Access Timeout Recovery: True", "drain"),
    ],
)
def test_the_place_is_told_with_what_mends_it(name: str, title: str, fix: str, tmp_path: Path) -> None:
    assert is_told_first(LOGS[name], tmp_path, title, fix)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("save-due-at-step", "still evaluates"),
        ("end-of-epoch", "look at the ranks that say nothing"),
        ("midst-of-epoch", "at the end of an epoch"),
        ("crash-in-the-midst", "crashed as it ended"),
        ("hip-ipc", "amd_iommu=off"),
    ],
)
def test_nothing_is_told_that_the_log_contradicts(name: str, words: str, tmp_path: Path) -> None:
    assert not is_claimed(words, LOGS[name], tmp_path)


@pytest.mark.parametrize("mask", [0x0, 0x2, 0xA, 0xAA, 0x1AA, 0x11AA])
def test_a_healthy_mask_says_nothing(mask: int) -> None:
    assert states_of(mask) == ()


def test_a_mask_is_read_bit_by_bit() -> None:
    assert len(states_of(0x55)) == 4
    assert states_of(0x1A9) == ("its bandwidth is degraded",)
    assert states_of(0x1BA) == ("its routes are unhealthy, and the GPU has to be reset",)
    assert states_of(0x4AA) == ("it belongs to no partition",)
    assert states_of(0xFAA) == ("its configuration is wrong (15)",)
