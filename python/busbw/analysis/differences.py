"""What differs between runs besides their times: library, machine, launcher, environment variables, options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from busbw.records import Record, Run

ABSENT = "-"
EMPTY = "(empty)"
_CONFS = ("NCCL_CONF_FILE", "/.nccl.conf", "/nccl.conf")
# Differ between any two runs and explain nothing.
_UNTELLING = frozenset({"BUSBW_ENGINE", "BUSBW_RUN_ID", "BUSBW_RUNS", "record", "runs", "output"})
# What a launcher sets anew for every start or every rank: identifiers, addresses, ports, and which rank this is.
_PER_START = re.compile(
    r"(?i)BUSBW_(ADDRESS|LISTEN_FD|PARENT|TURNS|(LOCAL_)?RANK)"
    r"|(SLURM|PMIX?|OMPI|PRTE|I_MPI|MV2|MPICH)_.*(JOB_?ID|VPID|JOB_(START|END)_TIME|STEP_?ID|PID"
    r"|ADDR|PORT|URI|HOST|PROCID|NODEID|GTIDS|LOCALID|_RANK|SESSION|NAMESPACE|SERVER|IDENT|TMPDIR|FD).*"
)


@dataclass(frozen=True)
class Difference:
    """One property that is not the same in all runs; `values` in the order of the runs, "-" where unset or unknown."""

    what: str
    values: tuple[str, ...]


def find_differences(records: Sequence[Record]) -> list[Difference]:
    """Library and machine first, then how the ranks were started, then environment variables and options by name."""
    runs = [record.run for record in records]
    rows = [("library sha256", tuple(_text(_hash(record)) for record in records))]
    rows += [(what, tuple(_text(read(run)) for run in runs)) for what, read in _PROPERTIES]
    rows += _variables(runs)
    rows += _files(runs)
    rows += _mapping("option ", [{key: _text(value) for key, value in run.options.items()} for run in runs])
    return [Difference(what, values) for what, values in rows if len(set(values)) > 1]


def _mapping(prefix: str, mappings: Sequence[object]) -> list[tuple[str, tuple[str, ...]]]:
    tables = [dict(mapping) for mapping in mappings]  # type: ignore[call-overload]
    names = sorted({name for table in tables for name in table if tells(name)})
    return [(prefix + name, tuple(_text(table.get(name)) for table in tables)) for name in names]


def _variables(runs: Sequence[Run]) -> list[tuple[str, tuple[str, ...]]]:
    """Those whose values differ, whichever way they were set; what an nccl.conf set has its file beside it."""
    settings = [run.settings for run in runs]
    names = sorted({name for each in settings for name in each if tells(name)})
    return [
        (name, tuple(_set_by(each.get(name), run.files.get(name)) for each, run in zip(settings, runs, strict=True)))
        for name in names
        if len({each.get(name) for each in settings}) > 1
    ]


def _set_by(value: str | None, file: str | None) -> str:
    if value is None:
        return ABSENT
    return f"{value or EMPTY} ({file})" if file else value or EMPTY


def _files(runs: Sequence[Run]) -> list[tuple[str, tuple[str, ...]]]:
    """The digests of files that act; those of an nccl.conf only where no variable of it tells the difference."""
    told = len({frozenset((each.name, each.value) for each in run.conf if each.in_force) for run in runs}) > 1
    return _mapping("", [
        {what: digest for what, digest in run.system.items()
         if what.startswith("file ") and not (told and what.endswith(_CONFS))}
        for run in runs
    ])  # fmt: skip


def tells(name: str) -> bool:
    """Whether a variable or option of this name can explain a difference."""
    return name not in _UNTELLING and _PER_START.fullmatch(name) is None


def _text(value: object) -> str:
    if value is None or value == "":
        return ABSENT
    return str(value)


def _hash(record: Record) -> str | None:
    """Of a large library the hash is known only when the run ends."""
    first = record.run.library and record.run.library.sha256
    found = first or (record.end and record.end.library_sha256)
    return found[:12] if found else None


def _library(run: Run) -> str | None:
    if run.library is None:
        return None
    version = run.library.version
    return f"{run.library.name} {version}" if version and version not in run.library.name else run.library.name


def _counted(values: Iterable[str]) -> str | None:
    counts: dict[str, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    if not counts:
        return None
    return ", ".join(name if count == 1 else f"{count} x {name}" for name, count in counts.items())


def _shape(run: Run) -> str | None:
    parts = (run.processes, run.threads_per_process, run.devices_per_thread)
    return " x ".join(str(part) for part in parts) if all(part is not None for part in parts) else None


_PROPERTIES: tuple[tuple[str, Callable[[Run], object]], ...] = (
    ("library", _library),
    ("library file", lambda run: run.library and run.library.path),
    ("CUDA", lambda run: run.library and run.library.cuda_version),
    ("machine", lambda run: run.machine),
    ("driver", lambda run: run.system.get("driver")),
    ("kernel", lambda run: run.system.get("kernel")),
    ("network", lambda run: run.system.get("network")),
    ("network plugin", lambda run: run.system.get("network plugin")),
    ("hosts", lambda run: ", ".join(dict.fromkeys(rank.host for rank in run.ranks)) or None),
    ("devices", lambda run: _counted(rank.device.name for rank in run.ranks if rank.device)),
    ("tool", lambda run: " ".join(part for part in (run.tool.name, run.tool.version) if part)),
    ("launcher", lambda run: run.launcher),
    ("processes x threads x devices", _shape),
    ("heading", lambda run: run.source and run.source.heading),
)
