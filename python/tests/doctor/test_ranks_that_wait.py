"""Ranks that wait apart: what their lines tell of those that do not come, and what is told where it is not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from .asked import is_claimed, is_told_first, logs_of, loud

LOGS = logs_of("f170-")
OTHERS = "these lines do not tell who holds it"


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("out-of-step", "rank 1 in number 7402 (ALLREDUCE of one element", "a longer time changes nothing"),
        ("last-of-four", "rank 3, the last of these 4, does not say so", "look at the rank that lags"),
        ("few-of-sixteen", f"16 ranks belong to it, and {OTHERS}", ""),
        ("alone-at-the-end", "rank 0 alone calls _ALLGATHER_BASE, and no other rank comes", "let all ranks call what"),
        ("after-the-save", "do not go on together (Checkpoint global_step800 is ready now!)", "py-spy dump"),
        ("reads-alone", "rank 0 still reads its part of the data", "more than 4415 s"),
        ("limit-was-lost", "A time limit of answer_check went off where Python ignores", "in a process of their own"),
        ("by-the-clock", "each rank's own clock says when it saves (save_interval_minutes)", "let rank 0 decide"),
        ("counted-apart", "rank 0 calls BARRIER as its number 4, rank 2 calls BARRIER as its number 3", "DETAIL"),
        ("no-count", "as its number of parameters (2074621952) is no count", "Build DDP"),
        ("count-of-nothing", "what rank 1 gave as its number of parameters (0) is no count", "NCCL_P2P_DISABLE=1"),
        ("other-count", "the model of rank 1 has 98 parameters, and that of rank 0 has 102", "the same config"),
        ("nobody-serves", "no connection to the rendezvous endpoint", "is_host=1"),
        ("segfault-alone", "segmentation fault", "PYTHONFAULTHANDLER=1"),
        ("killed-by-whom", "most often as the host's memory", "dmesg -T"),
        ("killed-for-memory", "the host ran out of memory", "--mem=0"),
        ("peer-named", "(error 12, peer 10.80.4.19)", "look at 10.80.4.19 first"),
        ("numbers-of-host", "(gpu = int(visible[local_rank]))", "take the local rank itself"),
        ("number-in-list", "(cuda:5), but CUDA_VISIBLE_DEVICES numbers", "take the local rank itself"),
        ("all-nan", "NaN or infinite on all 2 ranks", "a lower learning rate"),
        ("one-nan", "NaN or infinite on rank 1 alone", "look at the batch of rank 1"),
        ("fused-all-reduce", "FlashInfer's fused all-reduce had begun (backend=mnnvl)", "fuse_allreduce_rms=false"),
    ],
)
def test_is_told_first(name: str, title: str, fix: str, tmp_path: Path) -> None:
    assert is_told_first(LOGS[name], tmp_path, title, fix)


def test_a_rank_far_behind_in_calls_with_a_root_only_lags(tmp_path: Path) -> None:
    reduced = "ALLREDUCE, NumelIn=12601344, NumelOut=12601344"
    text = LOGS["out-of-step"].replace(reduced, "BROADCAST, NumelIn=8, NumelOut=8")
    assert is_told_first(text, tmp_path, "rank 0 lags: it waits in collective number 7401", "")


def test_steps_after_a_save_say_that_all_went_on(tmp_path: Path) -> None:
    text = LOGS["after-the-save"].replace("[rank5]", "{'loss': 2.1, 'epoch': 0.3}\n[rank5]", 1)
    assert not is_claimed("after a checkpoint was saved", text, tmp_path)


def test_all_ranks_of_a_gather_leave_none_missing(tmp_path: Path) -> None:
    text = LOGS["last-of-four"].replace("NumelOut=256", "NumelOut=192")
    assert is_told_first(text, tmp_path, "all 3 ranks of the group, so that none is missing", "")


STORE = """\
[W519 13:22:08.471930264 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=3, addr=[n1]:5221, remote=[n1]:29500): Connection reset by peer
[W519 13:22:08.472611907 TCPStore.cpp:343] [c10d] TCP client failed to connect/validate to host n1:29500 - retrying (try=0, timeout=300000ms, delay=617ms): Connection reset by peer
"""  # noqa: E501


def test_a_store_that_is_tried_again_once_is_no_fault(tmp_path: Path) -> None:
    assert not loud(STORE, tmp_path)


def test_a_store_that_is_tried_again_and_again_is_lost(tmp_path: Path) -> None:
    assert is_told_first(STORE + STORE.replace("try=0", "try=14"), tmp_path, "the store of rank 0 went away", "")


def test_a_store_that_broke_and_is_not_tried_again_is_lost(tmp_path: Path) -> None:
    assert is_told_first(STORE.partition("\n")[0], tmp_path, "the store of rank 0 went away", "")


def test_a_list_that_holds_the_number_by_its_place_is_right(tmp_path: Path) -> None:
    text = LOGS["number-in-list"].replace("cuda:5", "cuda:1")
    assert not is_claimed("numbers the visible ones anew", text, tmp_path)
