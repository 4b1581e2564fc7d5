"""Where ranks went apart, the finding quotes what one of them alone said shortly before; and no line that all say."""

from __future__ import annotations

from pathlib import Path

import pytest

from .asked import loud

STEPS = "".join(f"[rank{rank}] it {step} loss 6.9{step} 2.6 ms\n" for step in (8, 9) for rank in (0, 1))
TIMEOUT = (
    "[rank{rank}]:[E1130 09:56:38.2 ProcessGroupNCCL.cpp:689] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=52, OpType=ALLREDUCE, NumelIn={size}, NumelOut={size}, Timeout(ms)=10000) ran for 10021 "
    "milliseconds before timing out.\n"
)
APART = TIMEOUT.format(rank=0, size=4097000) + TIMEOUT.format(rank=1, size=1)


def test_an_empty_shard_of_one_rank_is_quoted_and_looked_at_first(tmp_path: Path) -> None:
    first = loud(f"{STEPS}[rank1] WARNING it 14: shard 3 is empty, taking none of it\n{APART}", tmp_path)[0]
    assert "rank 1 alone said: WARNING it 14: shard 3 is empty, taking none of it" in first.title
    assert first.fix.startswith("look first at what rank 1 did there")
    assert any(seen.line == STEPS.count("\n") + 1 for seen in first.evidence)


@pytest.mark.parametrize(
    "lines",
    [
        "[rank0] WARNING it 14: skipping 1 batch\n[rank1] WARNING it 14: skipping 2 batches\n".replace(
            "batches", "batch"
        ),
        "[rank1] it 10 loss 6.92 2.6 ms\n",
        "[rank0] now saving metrics\n",
        "[rank1]: UserWarning: only 2 workers\n",
        "[rank1]: ValueError: missing key\n",
    ],
)
def test_what_all_say_and_what_libraries_say_is_not_quoted(lines: str, tmp_path: Path) -> None:
    assert not any("alone said" in each.title for each in loud(f"{STEPS}{lines}{APART}", tmp_path))


def test_the_line_of_a_rank_that_is_not_the_lagging_one_is_not_quoted(tmp_path: Path) -> None:
    lags = TIMEOUT.format(rank=0, size=8).replace("52", "51") + TIMEOUT.format(rank=1, size=8)
    told = loud(f"{STEPS}[rank1] WARNING it 14: skipping\n{lags}", tmp_path)
    assert "rank 0 lags" in told[0].title
    assert "alone said" not in told[0].title


def test_without_other_ranks_that_speak_nothing_is_quoted(tmp_path: Path) -> None:
    told = loud(f"[rank1] WARNING it 14: skipping this batch\n{APART}", tmp_path)
    assert not any("alone said" in each.title for each in told)
