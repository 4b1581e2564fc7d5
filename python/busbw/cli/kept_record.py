"""Whether a measuring verb keeps a record and where, and what it says of it after the run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from busbw.runs.destination import Destination, RecordChoice, new_run_id, runs_directory

# How each launcher tells a process its rank, ours first; only rank 0 writes a record.
RANK_VARIABLES = ("BUSBW_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK")
_FIRST_LINE_BYTES = 64 << 20


def destination_for(choice: RecordChoice, environ: Mapping[str, str]) -> Destination | None:
    """Where to keep the record, or None where the user decided or another rank keeps it."""
    if choice.named or not choice.keep or own_rank(environ) > 0:
        return None
    return Destination(runs_directory(choice.runs, environ), new_run_id())


def own_rank(environ: Mapping[str, str]) -> int:
    """The rank that a launcher gave this process, 0 without a launcher."""
    for name in RANK_VARIABLES:
        if environ.get(name, "").isdecimal():
            return int(environ[name])
    return 0


def report(destination: Destination) -> None:
    """Tell where the record lies, on stderr: stdout belongs to the table, and to the line about what was expected."""
    if destination.close():
        explain(destination.record)
        print(f"busbw: the record of this run is {destination.record}", file=sys.stderr)


def explain_named(record: Path) -> None:
    """As `explain`, of a record that the user named: it may be a pipe, or not there."""
    with suppress(OSError):
        if record.is_file():
            explain(record)


def explain(record: Path) -> None:
    """Lines under the table: what share of the expected bandwidth was reached, and figures that cannot be true.

    Runs without GPUs have neither: their messages go through memory, whose rate nobody knows here.
    """
    # Only a run on GPUs has an expectation; the others do not wait for the imports.
    with record.open("rb") as stream:
        if b'"kind":"gpu"' not in stream.readline(_FIRST_LINE_BYTES):
            return
    from busbw.expect.expectation import explain as expectation

    said = expectation(record)
    if said:
        print(f"# Expected: {said}", flush=True)
    from busbw.expect.impossible import mark_file

    impossible = mark_file(record)
    if impossible:
        print(f"# Impossible: {impossible}", flush=True)
