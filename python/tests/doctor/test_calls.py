"""Calls that NCCL prints are compared between ranks, of one log or of several; variables are read off command lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Finding
from busbw.doctor.lines import commands
from busbw.doctor.lines.calls import MAX_CALLS
from busbw.doctor.reading.inputs import Inputs, read_inputs


def begun(rank: int, comm: str = "0xc0") -> str:
    name = f"comm 0x5{rank} rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId {rank}000 commId {comm}"
    head = f"n{rank}:40{rank}:41{rank} [{rank}] NCCL INFO ncclCommInitRank {name} - Init"
    return f"{head} START\n{head} COMPLETE\n"


def called(rank: int, number: int, count: int = 64, op: str = "AllReduce", root: int = 0) -> str:
    what = f"sendbuff 0x7f{rank} recvbuff 0x7f{rank} count {count} datatype 7 op 0 root {root} comm 0x5{rank}"
    return f"n{rank}:40{rank}:41{rank} [{rank}] NCCL INFO {op}: opCount {number:x} {what} [nranks=2] stream 0x1\n"


def differing(folder: Path, *logs: str) -> list[Finding]:
    paths = []
    for index, text in enumerate(logs):
        paths.append(folder / f"rank{index}.log")
        paths[-1].write_text(text)
    found = examine(gather(*read_inputs(Inputs(files=tuple(map(str, paths))))))
    return [each for each in found if each.name == "calls-differ"]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (
            called(0, 26),
            called(1, 26, count=32),
            "number 1a of one communicator: rank 0 calls AllReduce of 64",
        ),
        (called(0, 1, op="Broadcast"), called(1, 1), "rank 0 calls Broadcast of 64"),
        (called(0, 1, op="Reduce"), called(1, 1, op="Reduce", root=1), "root 1"),
        (called(0, 1) + called(0, 1, count=8), called(1, 1) + called(1, 1, count=8), ""),  # a group has one number
        (called(0, 1) + called(0, 1, count=8), called(1, 1, count=8) + called(1, 1), "AllReduce of 64 elements"),
        (called(0, 1) + called(0, 2), called(1, 1), ""),  # the other one may follow
    ],
)
def test_the_first_call_in_which_ranks_differ_is_named(first: str, second: str, words: str, tmp_path: Path) -> None:
    one_log = differing(tmp_path, begun(0) + begun(1) + first + second)
    two_logs = differing(tmp_path, begun(0) + first, begun(1) + second)
    for found in (one_log, two_logs):
        assert [words in each.title for each in found] == [True] * bool(words)
    if words:
        assert {each.where.rpartition("/")[2] for each in two_logs[0].evidence} == {"rank0.log", "rank1.log"}


PREFIXES = {
    "srun -l": lambda rank: f"{rank}: ",
    "mpirun --tag-output": lambda rank: f"[1,{rank}]<stdout>:",
    "torchrun": lambda rank: f"[default{rank}]:",
}


@pytest.mark.parametrize("launcher", PREFIXES)
def test_without_init_lines_the_rank_is_that_of_the_prefix(launcher: str, tmp_path: Path) -> None:
    lines = [
        f"{PREFIXES[launcher](rank)}{called(rank, 3 + step, count=32 if (rank, step) == (1, 1) else 64)}"
        for step in range(3)
        for rank in range(2)
    ]
    (found,) = differing(tmp_path, "".join(lines))
    assert "number 4 of one communicator: rank 0 calls AllReduce of 64 elements" in found.title
    assert "rank 1 AllReduce of 32 elements" in found.title


def test_without_init_lines_and_prefixes_processes_and_files_name_who_calls(tmp_path: Path) -> None:
    for logs in ((called(0, 1) + called(1, 1, count=8),), (called(0, 1), called(1, 1, count=8))):
        (found,) = differing(tmp_path, *logs)
        assert "n0 GPU 0 calls AllReduce of 64" in found.title and "n1 GPU 1 AllReduce of 8" in found.title
        assert len({each.where for each in found.evidence}) == len(logs)


def test_without_init_lines_several_communicators_are_not_compared(tmp_path: Path) -> None:
    other = called(1, 1, count=8).replace("comm 0x51", "comm 0x99")
    assert not differing(tmp_path, called(0, 1) + called(1, 1) + other)
    # Another number of ranks is another communicator, and more ranks than it has are those of several.
    assert not differing(tmp_path, called(0, 1) + called(1, 1, count=8).replace("nranks=2", "nranks=4"))
    assert not differing(tmp_path, called(0, 1) + called(1, 1) + called(2, 1, count=8))


def test_without_init_lines_a_group_that_was_cut_is_not_compared(tmp_path: Path) -> None:
    whole = called(0, 1) + called(0, 1, count=8) + called(0, 2)
    assert not differing(tmp_path, whole + called(1, 1, count=8) + called(1, 2))


def test_calls_of_two_communicators_are_not_compared(tmp_path: Path) -> None:
    assert not differing(tmp_path, begun(0) + begun(1, "0xd0") + called(0, 1) + called(1, 1, count=9))


def test_of_many_calls_the_last_are_compared(tmp_path: Path) -> None:
    def log(rank: int, last: int) -> str:
        every = [called(rank, number) for number in range(MAX_CALLS + 10)]
        return begun(rank) + "".join(every) + called(rank, MAX_CALLS + 10, count=last)

    assert not differing(tmp_path, log(0, 7), log(1, 7))
    assert [f"number {MAX_CALLS + 10:x} " in each.title for each in differing(tmp_path, log(0, 7), log(1, 6))] == [True]


def test_a_group_of_which_the_first_calls_are_no_longer_kept_is_not_compared(tmp_path: Path) -> None:
    def log(rank: int, after: int) -> str:
        group = called(rank, 5) + called(rank, 5, count=8)
        return begun(rank) + group + "".join(called(rank, 6 + number) for number in range(after))

    assert not differing(tmp_path, log(0, MAX_CALLS - 1), log(1, MAX_CALLS - 2))


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("export NCCL_ALGO=Tree", {"NCCL_ALGO": "Tree"}),
        ("+ export NCCL_ALGO='Tree'", {"NCCL_ALGO": "Tree"}),
        ("2026-11-22T10:00:01.5Z export NCCL_ALGO=Tree", {"NCCL_ALGO": "Tree"}),
        ("[1,0]<stdout>:+ export NCCL_ALGO=Tree", {"NCCL_ALGO": "Tree"}),
        (' 0: declare -x CUDA_LAUNCH_BLOCKING="1"', {"CUDA_LAUNCH_BLOCKING": "1"}),
        ("$ mpirun -np 8 -x NCCL_PROTO=LL -x NCCL_ALGO=Ring ./x", {"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring"}),
        ("srun --export=ALL,NCCL_PROTO=LL ./x", {"NCCL_PROTO": "LL"}),
        ("docker run -e NCCL_PROTO=LL image", {"NCCL_PROTO": "LL"}),
        ("as a workaround: export NCCL_ALGO=Tree", {}),
        ("try mpirun with NCCL_ALGO=Tree", {}),
        ("export PATH=/opt", {}),
    ],
)
def test_variables_are_read_off_commands_and_not_off_prose(line: str, given: dict[str, str]) -> None:
    found: dict[str, tuple[str, int]] = {}
    commands.note(line, 3, found)
    assert found == {name: (value, 3) for name, value in given.items()}
