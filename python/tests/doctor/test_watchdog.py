"""Watchdogs of several ranks name the rank that lags, within one process group, and accuse nobody over several."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.signature import Signature, Stage

from .test_corpus import loud


def caught(rank: int, number: int, who: int | None = None) -> str:
    prefix = f"[rank{rank if who is None else who}]:[E211 09:51:04.101 ProcessGroupNCCL.cpp:683] "
    return (
        f"{prefix}[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={number}, "
        "OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.\n"
    )


def status(who: int, group: str, rank: int, number: int) -> str:
    return (
        f"[rank{who}]:[E211 09:51:04.108 ProcessGroupNCCL.cpp:2241] [PG ID {group} Rank {rank}] failure detected by "
        f"watchdog at work sequence id: {number} PG status: last enqueued work: {number + 1}, last completed work: "
        f"{number - 1}\n"
    )


def title(text: str, folder: Path) -> str:
    (finding,) = loud(text, folder)
    assert finding.name == "watchdog-timeout"
    return finding.title


def test_the_rank_whose_collective_has_the_lower_number_lags(tmp_path: Path) -> None:
    said = title(caught(0, 100) + caught(1, 99) + caught(2, 100), tmp_path)
    assert "(ALLREDUCE) did not finish in its time of 600 s: rank 1 lags: it waits in collective number 99" in said


@pytest.mark.parametrize(
    "text",
    [
        caught(0, 88120, who=16) + caught(1, 88119, who=33),
        caught(0, 88120) + caught(1, 511),
        status(4, "9 PG GUID 61(TP)", 0, 812) + status(5, "3 PG GUID 8(DP)", 1, 811),
    ],
    ids=["ranks counted anew", "far apart", "two groups"],
)
def test_numbers_of_different_groups_accuse_nobody(text: str, tmp_path: Path) -> None:
    assert "lags" not in title(text, tmp_path)


def test_within_a_named_group_the_rank_of_the_job_is_told(tmp_path: Path) -> None:
    group = "9 PG GUID 61(EXPERT)"
    text = "".join(status(16 + rank, group, rank, 812 - (rank == 2)) for rank in range(4))
    said = title(text, tmp_path)
    assert (
        "of process group EXPERT failed or did not" in said
        and "rank 18 lags: it waits in collective number 811" in said
    )


def test_a_pattern_that_names_something_goes_before_one_that_only_fits() -> None:
    made = Signature("x", Stage.PROGRAM, "{what}", ("it broke", "it (?P<what>broke) here", "broke here"), "c", "c", "s")
    assert made.match("it broke here", "it broke here") == {"what": "broke"}
    assert made.match("it broke", "it broke") == {} and made.match("it works", "it works") is None
