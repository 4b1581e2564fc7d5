"""One table whose lines stand behind different prefixes, or some behind none, is read as one, with its ranks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.importers import ImportedSweep, import_path
from busbw.records import Record

RANKS, SIZES = 16, (33554432, 67108864, 134217728)
Label = Callable[[int, int], str]

LABELS: dict[str, Label] = {
    "srun -l": lambda rank, at: f"{rank:2d}: ",
    "srun -l of a few": lambda rank, at: f"{rank}: ",
    "hydra -prepend-rank": lambda rank, at: f"[{rank}] ",
    "mpirun --tag-output": lambda rank, at: f"[1,{rank}]<stdout>:",
    "mpirun --timestamp-output": lambda rank, at: f"Sun Nov 29 19:01:{at % 60:02d} 2026<stdout>:",
    "mpirun with both": lambda rank, at: f"Sun Nov 29 19:01:{at % 60:02d} 2026[1,{rank}]<stdout>:",
    "Open MPI 5": lambda rank, at: f"[prterun-node1-1234@1,{rank}]<stdout>: ",
    "Open MPI 5 with hosts": lambda rank, at: f"[prterun-node1-1234@1,{rank}][node1:4321]<stdout>: ",
    "kubectl logs --prefix": lambda rank, at: "[pod/nccl-launcher-abc/mpi] ",
    "kubectl and mpirun": lambda rank, at: f"[pod/nccl-launcher-abc/mpi] [1,{rank}]<stdout>:",
    "docker logs -t": lambda rank, at: f"2026-11-29T19:01:{at % 60:02d}.123456789Z ",
    "a container's log": lambda rank, at: f"2026-11-29T19:01:{at % 60:02d}.123456789Z stdout F ",
    "journald": lambda rank, at: f"Nov 29 19:01:{at % 60:02d} node1 slurm-job[4321]: ",
    "pdsh": lambda rank, at: f"node{rank:02d}: ",
    "compose": lambda rank, at: f"worker-{rank}  | ",
}


def _is_row(line: str) -> bool:
    return line.split()[:1] != [] and line.split(maxsplit=1)[0].isdecimal()


PARTS: dict[str, Callable[[str], bool]] = {
    "all": lambda line: True,
    "rows": _is_row,
    "all but rows": lambda line: not _is_row(line),
    "the list of ranks": lambda line: line.startswith("#  Rank"),
    "all but the list of ranks": lambda line: not line.startswith("#  Rank"),
    "the last lines": lambda line: line.startswith(("# Out", "# Avg")),
    "the table": lambda line: _is_row(line) or "place" in line or "algbw" in line or "(B)" in line,
}


def _lines(wrong: int = 0) -> list[str]:
    row = f"float     sum      -1   2132.7   15.73   29.50      {wrong}   2132.7   15.73   29.50      0"
    return [
        "# Collective test starting: all_reduce_perf",
        "# nThread 1 nGpus 1 minBytes 33554432 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 "
        "agg iters: 1 validation: 1 graph: 0",
        "#",
        "# Using devices",
        *(
            f"#  Rank {rank:2d} Group  0 Pid {20000 + rank} on h100-{rank // 8} device  {rank % 8} [0x{rank % 8 + 1}9] "
            "NVIDIA H100 80GB HBM3"
            for rank in range(RANKS)
        ),
        "#",
        "#                                                              out-of-place                       in-place",
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
        "#wrong",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
        *(f"{size:12d} {size // 4:12d} {row.replace('2132.7', str(round(size / 15730, 1)))}" for size in SIZES),
        f"# Out of bounds values : {wrong * 3} {'FAILED' if wrong else 'OK'}",
        "# Avg bus bandwidth    : 29.5",
    ]


def _labelled(lines: list[str], label: Label, part: str, *, of_others: bool) -> str:
    """The lines behind a label where the part says so, the other ranks' lines between them."""
    shown = []
    for at, line in enumerate(lines):
        if of_others:
            shown += [
                f"{label(rank, at)}h100-{rank // 8}:{2000 + rank}:{2100 + rank} [{rank % 8}] NCCL INFO Channel 00/0 : "
                f"{rank}[{rank % 8}] -> {rank + 1}[{rank % 8 + 1}] via P2P/CUMEM"
                for rank in (0, 3, 9)
            ]
            shown.append(f"{label(5, at)}step {at} of rank 5")
        shown.append(f"{label(0, at) if PARTS[part](line) else ''}{line}")
    return "\n".join([*shown, ""])


def _read(path: Path, text: str) -> tuple[list[Record], list[str]]:
    found: list[ImportedSweep] = []
    path.write_text(text)
    report = import_path(path, found.append)
    return [each.record() for each in found], report.problems


@pytest.mark.parametrize("launcher", LABELS)
def test_a_table_of_which_a_part_is_labelled_keeps_its_ranks_rows_end_and_wrong_counts(
    launcher: str, tmp_path: Path
) -> None:
    for part, of_others in itertools.product(PARTS, (False, True)):
        text = _labelled(_lines(wrong=2), LABELS[launcher], part, of_others=of_others)
        records, problems = _read(tmp_path / "job.log", text)
        assert [(len(each.run.ranks), len(each.cases)) for each in records] == [(RANKS, 2 * len(SIZES))], text
        assert records[0].cases[0].ranks == RANKS and records[0].cases[0].wrong == 2
        assert records[0].end is not None and records[0].end.outcome == "failed"
        assert not problems


def test_a_list_of_which_each_rank_prints_its_own_line_is_one_list(tmp_path: Path) -> None:
    label = LABELS["srun -l"]
    lines = [f"{label(int(line.split()[2]) if 'Rank' in line else 0, 0)}{line}" for line in _lines()]
    records, problems = _read(tmp_path / "job.log", "\n".join(lines))
    assert [len(each.run.ranks) for each in records] == [RANKS] and not problems


def test_labels_within_rows_as_hydra_prints_them_leave_the_list_above_to_its_table(tmp_path: Path) -> None:
    lines = [f"[0] {line.replace('      -1 ', '      -1[0] ')}" if _is_row(line) else line for line in _lines()]
    records, problems = _read(tmp_path / "job.log", "\n".join(lines))
    assert [(len(each.run.ranks), len(each.cases)) for each in records] == [(RANKS, 2 * len(SIZES))] and not problems


def test_jobs_of_all_launchers_whose_lines_alternate_stay_apart(tmp_path: Path) -> None:
    names = ("mpirun --tag-output", "hydra -prepend-rank", "kubectl logs --prefix", "pdsh", "compose")
    labels = [LABELS[name] for name in names]
    shown = [f"{label(0, at)}{line}" for at, line in enumerate(_lines()) for label in labels]
    records, problems = _read(tmp_path / "job.log", "\n".join(shown))
    assert [len(each.run.ranks) for each in records] == [RANKS] * len(labels) and not problems


def test_copies_without_mpi_keep_a_list_each(tmp_path: Path) -> None:
    lines = [line for line in _lines() if "Rank" not in line or "Rank  0" in line]
    shown = [f"{LABELS['srun -l'](rank, 0)}{line}" for line in lines for rank in range(3)]
    records, _ = _read(tmp_path / "job.log", "\n".join(shown))
    assert [len(each.run.ranks) for each in records] == [1, 1, 1]
