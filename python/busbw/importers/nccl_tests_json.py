"""nccl-tests' JSON, versions 1 to 3: misspelt keys, Infinity, "nan" and files that a killed run left open."""

from __future__ import annotations

import json
import re
from collections import deque
from itertools import pairwise
from typing import Any

from busbw.base.effort import EFFORT
from busbw.base.secrets import hide_random, shortened
from busbw.importers.context import Command, is_kept, without_secrets
from busbw.importers.draft import Draft, Sink, is_enough
from busbw.importers.nccl_tests_text import MAX_ROWS
from busbw.importers.values import collective_named, number, type_named, version_of_code
from busbw.importers.work_limit import PER_CELLS
from busbw.records import Average, Case, Collective, Device, End, Library, Placement, Rank, Tool

FORMAT = "nccl-tests JSON"
MAX_BYTES = 32 << 20
_KNOWN_VERSIONS = (1, 2, 3)
_TOKEN = re.compile(r'["{}\[\],]')
_BARE = re.compile(r"(?<=[:\[,\s])[+-]?(?:nan|inf)(?=[\s,}\]])")
_AVERAGES: tuple[Average, ...] = ("rank0", "mean", "min", "max")
_ITERATION_STATISTICS = {
    "min_us": "iteration_min_us", "max_us": "iteration_max_us", "avg_us": "iteration_mean_us",
    "p50_us": "iteration_p50_us", "p95_us": "iteration_p95_us", "p99_us": "iteration_p99_us",
    "stdev_us": "iteration_stdev_us", "cv_pct": "iteration_cv_percent", "skipped_iterations": "skipped_iterations",
}  # fmt: skip


def looks_like(head: str) -> bool:
    """Whether a text begins as nccl-tests' JSON does."""
    return re.match(r'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"start_time"', head) is not None


def parse(text: str, sink: Sink) -> None:
    """Hand over the runs of a JSON text; several documents may follow each other."""
    at = 0
    read = 0
    while read < 10_000:
        start = text.find("{", at)
        if start < 0:
            break
        line = text.count("\n", 0, start) + 1
        document, end, cut_off = _document(text, start)
        if document is None:
            sink.problem(line, "starts like nccl-tests' JSON, but is no JSON")
            return
        read += 1
        _run(document, sink, line, text[start:end], cut_off)
        if cut_off:
            return
        at = end


def _document(text: str, start: int) -> tuple[dict[str, Any] | None, int, bool]:
    """(the object that starts here, where it ends, whether it had to be closed for a killed run)."""
    decoder = json.JSONDecoder(parse_int=_integer)
    try:
        value, end = decoder.raw_decode(text, start)
    except (ValueError, RecursionError):
        if _BARE.search(text, start):
            # C's printf writes what JSON has no word for; the text keeps its length.
            return _document(_BARE.sub(lambda found: "NaN".rjust(len(found[0])), text), start)
        value = _closed(text[start:], decoder)
        return value, len(text), True
    return (value if isinstance(value, dict) else None), end, False


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= 20 else float("nan")


def _closed(text: str, decoder: json.JSONDecoder) -> dict[str, Any] | None:
    """The object with what is open at its cut end closed: cut back to the last whole value that lets it be read."""
    text = _without_broken_tail(text)
    for end, brackets in reversed(_ends_of_values(text)):
        closing = "".join("}" if bracket == "{" else "]" for bracket in reversed(brackets))
        try:
            value, _ = decoder.raw_decode(text[:end] + closing)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else None
    return None


def _without_broken_tail(text: str) -> str:
    # A NUL or half a multi-byte character at the cut is the file system's, not the writer's.
    return text.rstrip("\0\ufffd \n\r\t")


def _ends_of_values(text: str) -> list[tuple[int, str]]:
    """Where the last values end, each with the brackets that are open there; the deepest nesting read is 200."""
    ends: deque[tuple[int, str]] = deque(maxlen=8)
    brackets = ""
    at = 0
    while token := _TOKEN.search(text, at):
        at = token.end()
        sign = token[0]
        if sign == '"':
            at = _end_of_string(text, at)
            if at < 0:
                break
        elif sign in "{[":
            brackets += sign
            if len(brackets) > 200:
                break
        elif sign == ",":
            if brackets:
                ends.append((token.start(), brackets))
        elif brackets and brackets[-1] == {"}": "{", "]": "["}[sign]:
            brackets = brackets[:-1]
            ends.append((at, brackets))
        else:
            break
    return list(ends)


def _end_of_string(text: str, start: int) -> int:
    """Behind the quote that closes a string; -1 where none does. A regular expression would need memory per escape."""
    at = start
    while (quote := text.find('"', at)) >= 0:
        backslashes = quote - len(text[max(start, quote - 100) : quote].rstrip("\\")) - max(start, quote - 100)
        if backslashes % 2 == 0:
            return quote + 1
        at = quote + 1
    return -1


def _run(document: dict[str, Any], sink: Sink, line: int, text: str, cut_off: bool) -> None:
    version = document.get("version")
    if version not in _KNOWN_VERSIONS:
        sink.problem(line, f"nccl-tests' JSON of version {str(version)[:20]}: read as if it were version 3")
    results = _list(document.get("results"))
    if not results:
        sink.problem(line, "nccl-tests' JSON without results")
    for start in range(0, len(results), MAX_ROWS):
        around = sink.sweep_starts()
        draft = _draft(document, around.command, line, cut_off)
        draft.collective = draft.collective or sink.collective
        if not draft.collective:
            sink.problem(line, "nothing names the collective of this run; name it with --collective")
            return
        draft.content = [f"{start}", text]
        if len(results) > MAX_ROWS:
            draft.notes.append(f"results {start} to {min(start + MAX_ROWS, len(results)) - 1} of {len(results)}")
        _results(results[start : start + MAX_ROWS], draft, _dict(document.get("config")), sink, line)
        if draft.cases:
            sink.sweep_ends(draft, around)
        if is_enough(sink):
            break


def _draft(document: dict[str, Any], command: Command | None, line: int, cut_off: bool) -> Draft:
    """Everything but the results."""
    arguments = tuple(without_secrets(str(each)[:1000]) for each in _list(document.get("args"))[:1000])
    program = arguments[0].rsplit("/", 1)[-1] if arguments else None
    collective = collective_named(re.sub(r"_perf(_mpi)?(\.exe)?$", "", program)) if program else None
    config = _dict(document.get("config"))
    notes = ["the file is not closed: the run was killed, or its output cut"] if cut_off else []
    ranks = _ranks(config)
    return Draft(
        format=FORMAT,
        tool=Tool("nccl-tests"),
        line=line,
        collective=collective or (command.collective if command else None),
        ranks=ranks,
        size=_size(config, ranks, notes),
        library=_library(document.get("nccl_version")),
        program=program,
        arguments=arguments[1:],
        options=_options(config),
        started=_time(document.get("start_time")),
        processes=len(ranks) or None,
        threads_per_process=_int(config.get("nthreads")),
        devices_per_thread=_int(config.get("ngpus")),
        environment=_environment(document.get("env")),
        notes=notes,
        end=_end(document, cut_off),
    )


def _results(results: list[Any], draft: Draft, config: dict[str, Any], sink: Sink, line: int) -> None:
    average = _average(draft.arguments)
    placements: tuple[Placement, ...] = ("out_of_place", "in_place")
    for index, entry in enumerate(results):
        if draft.cases and is_enough(sink):
            return
        EFFORT.left -= PER_CELLS
        result = _dict(entry)
        size, count = _int(result.get("size")), _int(result.get("count"))
        if size is None or count is None or size < 0:
            sink.problem(line, f"result {index} has no size and count")
            continue
        draft.rows += 1
        for placement in placements:
            if isinstance(result.get(placement), dict):
                draft.cases.append(_case(draft, result, placement, config, average))


def _case(draft: Draft, result: dict[str, Any], placement: Placement, config: dict[str, Any], average: Average) -> Case:
    figures = result[placement]
    collective: Collective | None = draft.collective
    assert collective is not None
    size, algbw = _int(result["size"]) or 0, _number(figures.get("alg_bw"))
    time, cpu_time = _number(figures.get("time")), _number(figures.get("cpu_time"))
    conversion = None
    if time is None and cpu_time is not None and algbw:
        time = round(size / algbw / 1000, 3)
        conversion = "time from size over algorithm bandwidth: the file has the launch time in its place"
    per_iteration = _dict(result.get(f"{placement}_per_iter"))
    samples = tuple(value for each in _list(per_iteration.get("times_us")) if (value := _number(each)) is not None)
    op = result.get("redop")
    return Case(
        run="", case=0, collective=collective, bytes=size, placement=placement, outcome="measured", time_us=time,
        cpu_time_us=cpu_time, algbw_GBps=algbw, busbw_GBps=_number(figures.get("bus_bw")),
        type=type_named(_text(result.get("type"))), op=None if op in (None, "", "none") else _text(op),
        root=_root(result.get("root")), count=_int(result.get("count")), wrong=_number(figures.get("nwrong")),
        iterations=_int(result.get("actual_iterations")) or _int(config.get("iterations")),
        aggregated=_int(config.get("aggregated_iterations")), graph_launches=_int(config.get("graph")),
        checks=_int(config.get("validation")), average=average, conversion=conversion,
        iterations_us=(samples,) if samples else (),
        context={long: value for key, long in _ITERATION_STATISTICS.items()
                 if (value := _number(per_iteration.get(key))) is not None},
    )  # fmt: skip


def _end(document: dict[str, Any], cut_off: bool) -> End:
    bounds = _dict(document.get("out_of_bounds"))
    # Versions 2.17.4 to 2.17.8 misspell both keys.
    mean = _dict(document.get("average_bus_bandwidth", document.get("average_bus_bandwidith")))
    errors = [text for each in _list(document.get("errors")) if (text := _text(each))]
    failed = bounds.get("okay") == "false" or bool(errors)
    said = shortened("; ".join(errors), 1000)
    outcome = "failed" if failed else "interrupted" if cut_off or "end_time" not in document else "completed"
    return End(
        "", outcome, 0, finished=_time(document.get("end_time")),  # type: ignore[arg-type]
        reason=said or ("checks failed" if failed else None) or ("cut off" if cut_off else None),
        out_of_bounds=_int(bounds.get("count")),
        average_busbw_GBps=_number(mean.get("bandwidth", mean.get("bandwidith"))),
    )  # fmt: skip


def _ranks(config: dict[str, Any]) -> tuple[Rank, ...]:
    ranks = []
    for entry in _list(config.get("devices"))[:100_000]:
        device = _dict(entry)
        rank, index = _int(device.get("rank")), _int(device.get("device"))
        if rank is None or rank < 0:
            continue
        ranks.append(Rank(
            rank=rank, host=_text(device.get("hostname")) or "unknown", group=_count(device.get("group")),
            pid=_count(device.get("pid")),
            device=None if index is None or index < 0 else
            Device("gpu", index, _text(device.get("device_info")) or "unknown", _text(device.get("device_hex"))),
        ))  # fmt: skip
    return tuple(ranks)


def _size(config: dict[str, Any], ranks: tuple[Rank, ...], notes: list[str]) -> int | None:
    """The file lists one device per process, whatever -t and -g are."""
    if not ranks:
        return None
    per_process = (_int(config.get("nthreads")) or 1) * (_int(config.get("ngpus")) or 1)
    groups: dict[int, int] = {}
    for rank in ranks:
        groups[rank.group or 0] = groups.get(rank.group or 0, 0) + per_process
    if per_process > 1:
        notes.append(f"{per_process} ranks in each process: the file lists the first of each only")
    return next(iter(groups.values())) if len(set(groups.values())) == 1 else None


def _options(config: dict[str, Any]) -> dict[str, Any]:
    names = {"minimum_bytes": "minbytes", "maximum_bytes": "maxbytes", "step_factor": "stepfactor",
             "step_bytes": "stepbytes", "iterations": "iters", "aggregated_iterations": "agg_iters",
             "validation": "check", "graph": "cudagraph", "nthreads": "nthreads", "ngpus": "ngpus",
             "warmup_iters": "warmup_iters"}  # fmt: skip
    return {name: value for key, name in names.items() if (value := _int(config.get(key))) is not None}


def _environment(entries: Any) -> dict[str, str]:
    """Of the whole environment that the tool dumps, only what matters; the rest may hold secrets."""
    pairs = (_text(each).partition("=") for each in _list(entries)[:100_000] if _text(each))
    return {name: hide_random(shortened(value, 2000)) for name, equals, value in pairs if equals and is_kept(name)}


def _library(code: Any) -> Library | None:
    value = _int(code)
    return Library("NCCL", version=version_of_code(value), version_code=value) if value and value > 0 else None


def _average(arguments: tuple[str, ...]) -> Average:
    for flag, value in pairwise(arguments):
        if flag in ("-a", "--average") and value in ("0", "1", "2", "3"):
            return _AVERAGES[int(value)]
    return "mean"


def _root(value: Any) -> int | None:
    text = value.strip() if isinstance(value, str) else value
    try:
        root = int(text)
    except (TypeError, ValueError, OverflowError):
        return None
    return root if 0 <= root < 1 << 31 else None


def _time(value: Any) -> str | None:
    text = _text(value)
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)", text)
    return f"{found[1]}T{found[2]}" if found else None


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None


def _count(value: Any) -> int | None:
    found = _int(value)
    return found if found is not None and found >= 0 else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    return number(str(value)) if len(str(value)) < 60 else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
