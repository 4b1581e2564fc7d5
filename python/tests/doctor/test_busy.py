"""Who waited too long is told with what the missing rank did, and only where that had not ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.lines.busy import KINDS, Busy, kind_of
from busbw.doctor.lines.speakers import rank_of
from busbw.doctor.reading.inputs import Inputs, read_inputs

from .test_corpus import loud

CAUGHT = (
    "[rank{0}]:[E803 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL("
    "SeqNum=51, OpType=ALLREDUCE, NumelIn=9, NumelOut=9, Timeout(ms)=600000) ran for 600061 milliseconds before "
    "timing out.\n"
)
KEY = (
    "[rank{0}]: torch.distributed.DistBackendError: [{0}] is setting up NCCL communicator and retrieving ncclUniqueId "
    "from [0] via c10d key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms, "
    "keys: /0\n"
)


def first(text: str, folder: Path) -> Finding:
    return loud(text, folder)[0]


@pytest.mark.parametrize(
    ("line", "title", "fix"),
    [
        (
            "Tokenizing (num_proc=8):  61%|####  | 610/1000 [09:00<05:44]",
            "one rank still prepares the data",
            "once before",
        ),
        ("> building shuffle index for the train dataset ... 3/12", "one rank still prepares the data", "once before"),
        ("[rank0] Validation: 21% [81/391]", "rank 0 still evaluates", "same number of batches"),
        ("[RANK:0] Downloading weights: 40% of 61 GB", "rank 0 still downloads", "HF_HUB_OFFLINE"),
        ("[1,0]<stdout>:Writing checkpoint to /out/ck.pt", "rank 0 still saves a checkpoint", "async_save"),
        ("0: Loading checkpoint from /lustre/run/iter_4000", "rank 0 still loads weights", "local disk"),
        ("[rank0] all_gather_object of 4000000 predictions", "rank 0 still gathers Python objects", "file of its own"),
        ("[rank0]: capturing graphs 3/67", "rank 0 still compiles", "compile at once"),
    ],
)
@pytest.mark.parametrize("said", [CAUGHT, KEY], ids=["watchdog", "store"])
def test_the_work_of_the_missing_rank_is_named(said: str, line: str, title: str, fix: str, tmp_path: Path) -> None:
    found = first(f"{line}\n{said.format(2)}{said.format(1)}", tmp_path)
    assert found.title.startswith(title) and fix in found.fix
    assert any(line[:40] in each.fact for each in found.evidence)


@pytest.mark.parametrize(
    "before",
    [
        "[rank0] Validation: 21% [81/391]\n[rank0] Validation: 100% [391/391]\n",
        "[rank0] evaluating\n[rank0] evaluation took 31 s\n",
        "[rank0] evaluating\n[rank0] val loss: 2.31\n",
        "[rank0] Validation: 21% [81/391]\nstep 7 loss 2.0 1.1 s/it\n",
        "[rank2] Validation: 21% [81/391]\n",
        "[rank0] saving a checkpoint every 500 steps\n",
        'File "/v/tokenizing/data.py", line 3, in load_dataset\n',
        "[rank0] Validation: 21% [81/391]\n" + "waiting\nstill here\n" * 300,
    ],
    ids=["full", "took", "result", "steps after", "waits itself", "told only", "frame", "long ago"],
)
def test_what_ended_or_waits_itself_is_not_the_reason(before: str, tmp_path: Path) -> None:
    assert first(before + CAUGHT.format(2), tmp_path).title.startswith("a collective (ALLREDUCE)")


PART = "2026-08-03 10:{0:02}:00 INFO saved shard {1} of the model to /out/shard-{1}.bin\n"


def test_parts_that_are_still_written_are_a_work(tmp_path: Path) -> None:
    parts = [PART.format(minute, minute) for minute in range(1, 6)]
    found = first("".join(parts[:4]) + CAUGHT.format(1) + parts[4] + CAUGHT.format(2), tmp_path)
    assert found.title.startswith("one rank still saves a checkpoint")
    assert "5 parts so far, one each 60 s" in found.title


@pytest.mark.parametrize(
    "parts",
    [(1, 2), (1, 2, 3)],
    ids=["two are all", "the last part long before"],
)
def test_parts_that_are_all_there_are_no_work(parts: tuple[int, ...], tmp_path: Path) -> None:
    late = CAUGHT.replace("E803 ", "E0803 10:14:41.5 1 ")
    found = first("".join(PART.format(each, each) for each in parts) + late.format(1) + late.format(2), tmp_path)
    assert found.title.startswith("a collective (ALLREDUCE)")


def test_another_nodes_log_tells_what_it_does(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("Loading safetensors checkpoint shards: 100% Completed | 9/9\n" + CAUGHT.format(0))
    (tmp_path / "b.log").write_text("Loading safetensors checkpoint shards:  22% Completed | 2/9 [11:42<41:09]\n")
    paths = tuple(str(tmp_path / each) for each in ("a.log", "b.log"))
    found = [each for each in examine(gather(*read_inputs(Inputs(files=paths)))) if each.severity is not Severity.NOTE]
    assert found[0].title.startswith("the node of b.log still loads weights")


def test_a_rank_whose_data_come_late_is_named_by_its_times(tmp_path: Path) -> None:
    slow = "[rank 0] step 9 data ready after 0.10 s\n[rank 3] step 9 data ready after 8.40 s\n"
    assert first(slow + CAUGHT.format(0), tmp_path).title.startswith("rank 3 waits far longer for its data")
    even = "[rank 0] step 9 data ready after 7.10 s\n[rank 3] step 9 data ready after 8.40 s\n"
    assert first(even + CAUGHT.format(0), tmp_path).title.startswith("a collective")


def test_retries_of_the_rank_that_never_came_are_its_reason(tmp_path: Path) -> None:
    text = "Not all ranks joining collective: sequence number: 4\nmissing ranks: {5}\n"
    text += "[rank5]: Retrying in 600s [Retry 5/5] (backoff)\n"
    assert first(text, tmp_path).title.startswith("rank 5 still downloads")


def test_a_rank_is_read_from_what_stands_before_its_words() -> None:
    said = ["[rank7] x", "[rank 7] x", "7: x", "[1,7]<stderr>: x", "rank 7: x", "[2025-05-09 TP7] x", "[RANK:7] x"]
    assert [rank_of(each) for each in said] == ["7"] * len(said) and rank_of("epoch 7: x") == ""


def test_each_kind_is_known_by_some_line() -> None:
    assert {kind_of(each) for each in ("tokenizing", "fetching 3 files", "loading weights", "saving model")} == {
        *("data", "download", "load", "save")
    }
    assert kind_of("nothing of that kind") == "" and "input" in KINDS


def test_no_more_ranks_are_kept_than_are_looked_at() -> None:
    busy = Busy()
    for rank in range(2000):
        busy.look(f"[rank{rank}] evaluating", rank + 1)
        busy.look(f"[rank{rank}] data_time 3.1 s", rank + 1)
    assert len(busy.open) <= 256 and len(busy.data) <= 256
