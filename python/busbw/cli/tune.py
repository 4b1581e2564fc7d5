"""`busbw tune`: which algorithm of ours is the fastest from which size on, on this machine; kept for the library."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.base.errors import UsageError, UserError
from busbw.base.files import replace_text
from busbw.base.words import Args

if TYPE_CHECKING:
    from busbw.experiment.loop import Stop
    from busbw.experiment.tune.candidates import Asked
    from busbw.experiment.tune.measure import Tuning
    from busbw.experiment.tune.table import Rule

EPILOG = """\
Measures libbusbw_gpu.so with every algorithm forced in turn, and NCCL, in
replayed CUDA graphs. It prints the best by size, and saves the table that the
library reads: the file that BUSBW_TABLE names, else gpu-table.txt in
~/.config/busbw. Rules for other GPUs, collectives and rank counts stay in it.

With nccl as the first word it searches NCCL's own algorithm, protocol and
channels, proves the gain, and saves the table of libnccl-tuner-busbw.so.

exit code: 0 the table is saved, 1 nothing could be measured (nccl: no setting
pays, or with --verify a rule fell back), 130 interrupted. What was measured
until then is chosen from and saved (nccl: kept for --resume).

examples:
  busbw tune
  busbw tune --ranks 4 --budget 5m all_reduce all_gather
  busbw tune --ranks 2 -b 1K -e 16M --output tuned.txt all_reduce
  busbw tune --dry-run
  busbw tune nccl --ranks 4 all_reduce --budget 5m
  busbw tune nccl --ranks 4 --verify table.txt
  busbw tune nccl --library ./libnccl.so.2 --beside product --ranks 2 all_gather
  BUSBW_TABLE=tuned.txt busbw run --ranks 4 all_reduce --library busbw
"""


ROUNDS = 12


def run(args: Args) -> int:
    """Plan, measure, choose, save."""
    if args.collective[:1] == ["nccl"]:
        from busbw.cli.tune_nccl import run as run_nccl

        return run_nccl(args, _gpus)
    for name in ("verify", "resume", "launch", "beside"):
        if getattr(args, name):
            raise UsageError(f"--{name} belongs to `busbw tune nccl`; put nccl before the collectives")
    from busbw.base.progress import progress
    from busbw.experiment.tune.measure import Tuning
    from busbw.experiment.tune.table import default_path, read_table
    from busbw.experiment.tune.text import plan_text
    from busbw.runs.destination import new_run_id, runs_directory

    asked, rounds = _asked(args), args.rounds or ROUNDS
    output = args.output or Path(os.environ.get("BUSBW_TABLE") or default_path())
    if args.dry_run:
        print(plan_text(asked, rounds, args.budget) + f"The table would be saved in {output}.")
        return 0
    old = read_table(output)  # a file that is something else is refused before anything is measured
    folder = runs_directory(args.runs) / f"tune-{new_run_id()}"
    print(f"busbw: the records are kept in {folder}", file=sys.stderr)
    with progress(f"tuning {', '.join(asked.collectives)}, at most {args.budget:g} s") as tell:
        tuning = Tuning(asked, folder, rounds, args.budget, tell=tell)
        ended = tuning.run()
    return conclude(tuning, old, output, ended)


def conclude(tuning: Tuning, old: list[Rule], output: Path, ended: Stop) -> int:
    """Choose from whatever was measured, show it, save it."""
    from busbw.experiment.tune.candidates import types_of
    from busbw.experiment.tune.choose import copies, copies_begin, crossings, rules_of
    from busbw.experiment.tune.table import ANY_GPU, merged, table_text
    from busbw.experiment.tune.text import FOOTNOTE, crossings_text

    asked = tuning.asked
    gpu = tuning.gpu or ANY_GPU
    rules: list[Rule] = []
    for each in tuning.collected():
        found = crossings(each)
        if len(each.board.times) < 2 or not found:
            continue
        into_windows = copies(each, found)
        print(crossings_text(each, found, f"{asked.type}, {asked.ranks} ranks, {gpu}", into_windows))
        types = types_of(asked, each.collective)
        if into_windows:
            # Before the others, which are for calls without a window.
            [rule] = rules_of(each.collective, [into_windows], asked.ranks, types, gpu)
            rules.append(replace(rule, first=copies_begin(into_windows, found)))
        rules += rules_of(each.collective, found, asked.ranks, types, gpu)
    interrupted = ended.name == "INTERRUPTED"
    if not rules:
        raise UserError(f"nothing was measured beside NCCL, so there is nothing to choose ({ended.value})",
                        exit_code=130 if interrupted else 1)  # fmt: skip
    print(FOOTNOTE, end="")
    replace_text(
        output,
        table_text(merged(old, rules), ["Written by `busbw tune`; a line is a rule, the first that fits holds."]),
    )
    print(f"busbw: {ended.value}; the table is saved in {output}", file=sys.stderr)
    return 130 if interrupted else 0


def _asked(args: Args) -> Asked:
    from busbw.experiment.tune.candidates import Asked, collectives_of

    first, last = args.minbytes, args.maxbytes
    if not 0 < first <= last <= 1 << 40:
        raise UsageError(f"-b {first} -e {last}: the first size is at least 1, the last no smaller")
    if args.library != "busbw" and not Path(args.library).is_file():
        raise UsageError(
            f"--library {args.library}: there is no such file; give busbw, or the path of a libbusbw_gpu.so"
        )
    collectives = collectives_of(args.collective)
    ranks = args.ranks if args.ranks is not None else _gpus()
    if not 2 <= ranks <= 8:
        raise UsageError(
            f"{ranks} ranks: busbw's GPU collectives are for 2 to 8 GPUs of one machine; say how many with --ranks"
        )
    return Asked(collectives, ranks, first, last, args.datatype, args.library)


def _gpus() -> int:
    """GPUs that a job here would see."""
    from busbw.machine.topology.nvml import read_nvml

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([word for word in visible.split(",") if word])
    found = read_nvml()
    if found is None:
        raise UserError("no GPU was found here (NVML cannot be asked), and `busbw tune` measures GPUs; if there are "
                        "some, say how many with --ranks")  # fmt: skip
    return len(found[0])
