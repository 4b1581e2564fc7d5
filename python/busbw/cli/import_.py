"""`busbw import FILE...`: other tools' results, recognised by themselves, become runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from busbw.base.effort import EFFORT, HINT
from busbw.base.errors import UserError
from busbw.base.files import whole, writing
from busbw.base.secrets import hide
from busbw.base.terminal import EMPTY_LINE, START_OF_LINE
from busbw.base.words import Args
from busbw.importers import FileReport, ImportedSweep, import_folder, import_path, import_stream

MANY_CASES = 12_000
"""From here on a log is large: a second process takes over the folders of its runs."""

PER_FOLDER = 500
"""What a kept run costs, in units of work."""
MAX_KNOWN = 1024
"""Kinds of machine and place whose bounds are remembered."""

if TYPE_CHECKING:
    from busbw.expect.fabric import Fabric
    from busbw.expect.impossible import Bounds
    from busbw.importers.handover import Handover

EPILOG = """\
reads: nccl-tests text (every version since 2.0) and JSON, mscclpp-test, torch
all_reduce_bench, DeepSpeed's communication benchmark, OSU collectives, and the
others of docs/reference/import.md; Markdown pages and tables; busbw's records
and recordings. NCCL's messages and launchers' prefixes may stand between rows,
and files may be packed by gzip.

exit code: 0 all was imported, 1 a file could not be read, held nothing or was
read in part, 2 a file is not there or wrong usage

examples:
  busbw import job-1234.out                    keep every sweep as a run
  busbw import *.log --output results.jsonl    into one file instead
  busbw import logs-of-ranks/                  files of many ranks as one run
  busbw import page.md --url https://...       say where the page came from
  busbw import traces-of-ranks/ --recordings rec     for busbw replay
  srun -l all_reduce_perf ... | busbw import - from a pipe
"""


def run(args: Args) -> int:
    """Import every file; 1 where one could not be read, held nothing or was read in part, 2 where one is not there."""
    if args.recordings:
        return _recordings(args)
    code = 0
    with _Destination(args) as destination:
        for name in args.file:
            try:
                if EFFORT.is_spent and name != "-":
                    raise UserError(f"{name} was not read, as the files before it cost too much: {HINT}")
                report = _import(name, destination, args)
            except UserError as problem:
                print(f"busbw: {hide(str(problem))}", file=sys.stderr)
                code = max(code, problem.exit_code)
                continue
            for said in destination.impossible:
                report.note(None, said)
            destination.impossible.clear()
            _tell(report, quiet=args.quiet)
            code = max(code, int(report.sweeps == 0 or report.is_part))
    return code


def _recordings(args: Args) -> int:
    """Of execution traces, a file or folder of files each."""
    from busbw.importers.execution_trace import MAX_RANKS, convert

    paths: list[Path] = []
    for name in args.file:
        path = Path(name)
        # Hidden ones are other programs' notes, as macOS packs them beside each file.
        inside = sorted(path.glob("[!.]*")) if path.is_dir() else [path]
        paths += [each for each in inside if each == path or each.name.endswith((".json", ".json.gz"))]
    if not paths:
        raise UserError(f"{args.file[0]} holds no .json file; an execution trace has one of each rank")
    if len(paths) > MAX_RANKS:
        raise UserError(f"{len(paths):,} files are more than busbw takes ({MAX_RANKS:,} ranks)")
    folder = Path(args.recordings)
    with writing(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    written, notes = convert(paths, folder)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    print(f"{folder}: recordings of {len(written):,} ranks; `busbw replay {folder}` issues their calls again")
    return 0


def _import(name: str, destination: _Destination, args: Args) -> FileReport:
    take = destination.take
    with _Progress() as progress:
        if name == "-":
            EFFORT.lift()  # a program that must not be held up or killed writes it
            return import_stream(sys.stdin.buffer, "standard input", take, collective=args.collective, url=args.url,
                                 progress=progress.told)  # fmt: skip
        if Path(name).is_dir():
            return import_folder(Path(name), take, collective=args.collective, url=args.url, progress=progress.told)
        return import_path(
            Path(name), take, collective=args.collective, url=args.url, progress=progress.told,
            part=destination.part if destination.is_divisible else None,
        )  # fmt: skip


class _Progress:
    """How much was read of a file that takes longer, for whoever watches stderr."""

    def __init__(self) -> None:
        self._next = time.monotonic() + 1.0
        self._shown = False

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            print(EMPTY_LINE, end="", file=sys.stderr, flush=True)

    def told(self, read: int) -> None:
        """Show it, where that is due."""
        now = time.monotonic()
        if now < self._next or not sys.stderr.isatty():
            return
        self._next = now + 0.2
        self._shown = True
        print(f"{START_OF_LINE}{read / 1e6:.0f} MB read", end="", file=sys.stderr, flush=True)


def _tell(report: FileReport, *, quiet: bool) -> None:
    """What was not read and what was derived to stderr, the one line about the file to stdout."""
    if not quiet:
        for problem in report.problems:
            print(f"not read: {problem}", file=sys.stderr)
        for note in report.notes:
            print(f"note: {note}", file=sys.stderr)
        for said in report.more():
            print(f"note: {said}", file=sys.stderr)
        for conversion, count in report.conversions.most_common():
            print(f"converted: {report.name}: {count} figures, {conversion}", file=sys.stderr)
    print(report.summary(), flush=True)


class _Destination:
    """Where records go: a file, the kept runs, or nowhere."""

    def __init__(self, args: Args) -> None:
        self._dry = args.dry_run
        self._output = args.output
        self._runs = args.runs
        self._tags = tuple(dict.fromkeys(args.tag))
        self._stream: TextIO | None = None
        self._partial: Path | None = None
        self._cases = 0
        self._shared = False
        self._handover: Handover | None = None
        self._known: dict[Hashable, tuple[Fabric | None, Bounds | None]] = {}
        self.impossible: list[str] = []
        """A sentence for each sweep of the file with figures that cannot be true."""

    def __enter__(self) -> _Destination:
        if self._output and not self._dry:
            with writing(self._output):
                self._whole = whole(self._output)
                self._partial = self._whole.__enter__()
                self._stream = self._partial.open(
                    "w", encoding="utf-8", errors="backslashreplace", newline="\n", buffering=1 << 18
                )
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        finished = False
        try:
            if self._handover is not None and kind is None:
                self._handover.close()
            finished = kind is None
        finally:
            if self._handover is not None and not finished:
                self._handover.abandon()
            self._close(finished=finished)

    def _close(self, *, finished: bool) -> None:
        if self._stream is None or self._partial is None or self._output is None:
            return
        try:
            with writing(self._output):
                self._stream.close()
                if finished:
                    self._whole.__exit__(None, None, None)
        finally:
            with suppress(OSError):  # closed already, unless its target is refused
                self._stream.close()
            self._partial.unlink(missing_ok=True)

    @property
    def is_divisible(self) -> bool:
        """Whether the sweeps of a part of a file can be kept apart until they count; folders of runs cannot."""
        return self._dry or self._stream is not None

    def part(self) -> _Part:
        """Where the sweeps of a part go that a second process reads."""
        return _Part(self)

    def take(self, sweep: ImportedSweep) -> None:
        """Take one sweep; from many on, a second process keeps them as runs."""
        sweep = self._marked(sweep)
        if self._dry:
            return
        if self._tags:
            sweep = replace(sweep, run=replace(sweep.run, tags=(*sweep.run.tags, *self._tags)))
        self._cases += len(sweep)
        # One file is written faster than sweeps are handed over; folders for runs take the file system's time.
        if self._cases >= MANY_CASES and not self._shared and self._stream is None:
            self._shared = True
            self._share_work()
        if self._handover is not None:
            self._handover.put(sweep)
        else:
            self._write(sweep)

    def _marked(self, sweep: ImportedSweep) -> ImportedSweep:
        """The sweep with a word at each figure that cannot be true."""
        from busbw.expect import impossible, reasons

        fabric, bounds = self._bounds_of(sweep)
        # Large logs are not made into objects to look for what hardly any of them has.
        if sweep.figures is not None and (
            bounds is None or sweep.figures.keep(bounds.limit.GBps * reasons.ROUNDED, bounds.least_us, bounds.ranks)
        ):
            return sweep
        record = sweep.record()
        found = impossible.find(record, fabric)
        if not found:
            return sweep
        self.impossible.append(impossible.summary(found))
        marked = impossible.marked(record, found)
        return replace(sweep, run=marked.run, figures=None, drafted=list(marked.cases))

    def _bounds_of(self, sweep: ImportedSweep) -> tuple[Fabric | None, Bounds | None]:
        """What is known of the machine and what follows for all figures: the sweeps of a log differ little in it."""
        from busbw.expect import impossible

        run = sweep.run
        collective = sweep.figures.collective if sweep.figures is not None else None
        where = tuple([(rank.host, rank.device and (rank.device.kind, rank.device.name)) for rank in run.ranks])
        key = (run.machine, collective, sweep.ranks, where)
        if key not in self._known:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            fabric = impossible.fabric_of(run)
            bounds = impossible.bounds_of(run, collective, sweep.ranks, fabric) if collective else None
            self._known[key] = (fabric, bounds)
        return self._known[key]

    def _share_work(self) -> None:
        from busbw.importers import handover

        if handover.is_possible():
            self._handover = handover.Handover(self._write)

    def _write(self, sweep: ImportedSweep) -> None:
        if self._stream is None:
            from busbw.runs import store

            EFFORT.spend(PER_FOLDER)
            store.add_lines(sweep.run.run, sweep.lines(), Path(self._runs) if self._runs else None)
            return
        with writing(self._output or "", update=True):
            self._stream.writelines(sweep.lines())


class _Part:
    """The sweeps of a part of a file that a second process reads: lines in a file without a name, until they count."""

    def __init__(self, destination: _Destination) -> None:
        self._destination = destination
        self._first = destination._stream
        self._file: TextIO | None = None
        if self._first is not None and destination._partial is not None and destination._output is not None:
            path = destination._partial.with_name(f"{destination._partial.name}.part")
            with writing(destination._output):
                # What is still in memory here would be written by both processes.
                self._first.flush()
                self._file = path.open(
                    "x+", encoding="utf-8", errors="backslashreplace", newline="\n", buffering=1 << 18
                )
                path.unlink()

    def enter(self) -> None:
        """In the second process: from here on sweeps go to the file of the part."""
        self._destination._stream = self._file
        self._destination.impossible.clear()

    def leave(self) -> tuple[int, list[str]]:
        """There: what the first process has to know."""
        if self._file is not None:
            self._file.flush()
        return self._destination._cases, self._destination.impossible

    def join(self, left: tuple[int, list[str]]) -> None:
        """In the first process: the lines of the part follow its own."""
        self._destination._cases, said = left
        self._destination.impossible += said
        if self._first is None or self._file is None:
            return
        with writing(self._destination._output or "", update=True):
            self._first.flush()
            source, target = self._file.fileno(), self._first.fileno()
            at, size = 0, os.fstat(source).st_size
            while at < size:
                at += os.sendfile(target, source, at, size - at)

    def close(self) -> None:
        """The file is gone."""
        if self._file is not None:
            self._file.close()
