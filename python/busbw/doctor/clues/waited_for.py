"""For what others waited too long: the work that was still open on the missing rank, told in their finding."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.finding import Evidence, Finding, Severity
from busbw.doctor.lines.busy import ALONE, KINDS, Work, counts
from busbw.doctor.lines.hit import Hit
from busbw.doctor.lines.moments import moment_of
from busbw.doctor.lines.scanned import Scan
from busbw.doctor.lines.speakers import rank_of
from busbw.doctor.reading.shown import Shown

_NEAR, _FAR = 60, 400
"""Lines before the timeout in which a work stands that was open then; farther where it counts how far it is."""
_SHOWN = 90
_SLOW, _TIMES = 1.0, 3.0
_DUE = 2.0
"""Times what a part takes: so late the next one is no more to come."""
_SHARE = 0.9
"""Of the time that others waited: a work may have begun before they came."""
_WAITS = frozenset({"watchdog-timeout", "rendezvous-timeout", "server-waits", "flight-recorder"})
"""What ranks say that waited too long for another one."""
_NEVER_CAME = re.compile(r"subset of ranks|Not all ranks joining|Stalled ranks|missing ranks", re.IGNORECASE)


_UNREACHED = frozenset({"master-unreachable", "store-lost"})
"""What those say who gave up: who is at work is reached, and has not gone."""
_TIME = re.compile(
    r"(?:timeout|timed out|wait timeout) after (?P<a>\d{1,9}) ?ms|\bTimeout\(ms\)=(?P<b>\d{1,9})", re.IGNORECASE
)
_OPTION = re.compile(r"(?<!\S)(?P<said>-{1,2}[\w-]{0,30}time-?out[\w-]{0,20}[= ](?P<n>\d{1,7}))\b", re.IGNORECASE)
_BAR = re.compile(r"\|[^|\w]{8,400}\|")
"""The picture in a bar of progress, which takes the place of its figures."""
_DEFAULT_S = 600.0
"""PyTorch's own time for collectives of NCCL."""


def with_work(findings: Sequence[Finding], scans: Sequence[Scan], shown: Sequence[Shown] = ()) -> list[Finding]:
    """The findings; those of ranks that waited too long tell what the missing one did, where a log shows it."""
    told = [_told(each, scans, shown) if _waited(each) else each for each in findings]
    at_work = next((each.name for each, before in zip(told, findings, strict=True) if each is not before), "")
    return [
        replace(each, title=f"follows from {at_work}: what those say who gave up waiting for the one at work")
        if at_work and each.name in _UNREACHED and each.severity is Severity.NOTE and "follows from" in each.title
        else each
        for each in told
    ]


def _waited(finding: Finding) -> bool:
    if finding.severity is Severity.NOTE:
        return False
    if finding.name == "collective-mismatch":
        return any(_NEVER_CAME.search(seen.fact) for seen in finding.evidence)
    return finding.name in _WAITS


def _told(finding: Finding, scans: Sequence[Scan], shown: Sequence[Shown]) -> Finding:
    found = max(_works(finding, scans), default=None) or max(_long_works(finding, scans), default=None)
    if found is None:
        return finding
    _, source, rank, work = found
    kind = KINDS[work.kind]
    who = f"rank {rank}" if rank else "one rank" if len(scans) < 2 else f"the node of {source.rpartition('/')[2]}"
    who += "" if work.kind == "input" else " still"
    who = _silent_first(finding, scans, shown) or who if who == "one rank still" else who
    said = clean(shortened(_BAR.sub("|", work.text), _SHOWN)) + _pace(work)
    # Who is at work was started, and is reached.
    title = finding.title.partition(": some node did not start")[0]
    short, cure, seen = _too_short(finding, work, shown)
    return replace(
        finding,
        title=f"{who} {kind.does}, and others wait for it ({said}){short}: {title}",
        fix=f"{cure}{kind.cure}{_of_program(work, shown) if work.kind == 'data' else ''}",
        evidence=(*finding.evidence, Evidence(clean(shortened(work.text, 240)), source, work.line), *seen),
    )


_PREPARES = (
    (re.compile(r"\bllama-?factory\b", re.IGNORECASE), "LLaMA-Factory: tokenized_path, preprocessing_num_workers"),
    (re.compile(r"\baxolotl\b", re.IGNORECASE), "axolotl preprocess CONFIG; dataset_processes"),
    (
        re.compile(r"\byolo", re.IGNORECASE),
        "YOLO: --cache disk keeps what was read; without --cache nothing waits for it",
    ),
)
"""How programs are told to prepare data once, and by how many processes."""
_PROCESSES = re.compile(r"\bnum_proc=(?P<n>\d{1,3})\b")


def _of_program(work: Work, shown: Sequence[Shown]) -> str:
    """The program's own way to prepare data before the job, and that more processes do it faster."""
    lines = [line for each in shown for line in each.lines]
    how = next((said for words, said in _PREPARES if any(map(words.search, lines))), "")
    few = _PROCESSES.search(work.text)
    return (f". More processes do it faster (num_proc is {few['n']})" if few else "") + (f". {how}" if how else "")


def _too_short(finding: Finding, work: Work, shown: Sequence[Shown]) -> tuple[str, str, tuple[Evidence, ...]]:
    """That the time was set shorter than the work takes, or than it is by default; what to do; who set it."""
    found = next((each for seen in finding.evidence if (each := _TIME.search(seen.fact))), None)
    waited = int(found["a"] or found["b"]) / 1e3 if found else 0.0
    if not waited or not (waited < work.whole_s or waited < _DEFAULT_S / 2):
        return "", "", ()
    by = next(
        (
            (option["said"], Evidence(clean(shortened(line.strip(), 200)), each.source, number))
            for each in shown
            for number, line in enumerate(each.lines, 1)
            if "time" in line.lower() and (option := _OPTION.search(line)) and int(option["n"]) in _same(waited)
        ),
        None,
    )
    needs = f", and at its pace all of it takes about {work.whole_s:.0f} s" if work.whole_s > waited else ""
    who = f"{by[0].replace('=', ' ')}: " if by else ""
    short = waited < _DEFAULT_S
    default = f"the default is {_DEFAULT_S:.0f} s"
    if not short:
        default = "the default" if waited == _DEFAULT_S else "set by hand, or an older default"
    return (
        f"; their time of {waited:g} s ({who}{default}) is too short for that{needs}",
        f"raise {by[0].rpartition(' ')[0].partition('=')[0] if by else 'that time'} above what the work takes"
        f"{f' (more than {work.whole_s:.0f} s)' if needs else ''},{' or leave the default,' if short else ''} or do "
        "the work before init_process_group(). Then: ",
        (by[1],) if by else (),
    )


def _same(seconds: float) -> set[int]:
    """The numbers by which an option may mean that time: seconds, milliseconds, minutes."""
    return {round(seconds), round(seconds * 1e3)} | ({round(seconds / 60)} if seconds >= 60 else set())


_OF_TWO = re.compile(
    r"(?<!\S)--?(?:nproc[-_]per[-_]node|num[-_]processes|num_gpus|np?)[= ]2(?!\S)"
    r"|\bstore-based barrier\b[^\n]{0,120} with 2 nodes"
)
"""How a launcher is told that there are two ranks, and how PyTorch counts them."""
_NODES = re.compile(r"--(?:nnodes|num[-_](?:nodes|machines))[= ](?!1(?![\d:]))|\bhost-?file\b")


def _silent_first(finding: Finding, scans: Sequence[Scan], shown: Sequence[Shown]) -> str:
    """Rank 0 by name, where all others up to the last say that they waited: lines without a rank are its own."""
    waiting = {int(who) for scan in scans for who in _who_waits(finding.name, scan) if who.isdecimal()}
    if waiting == {1}:
        lines = [line for each in shown for line in each.lines]
        two = any(map(_OF_TWO.search, lines)) and not any(map(_NODES.search, lines))
        return "rank 0 still" if two else ""
    return "rank 0 still" if len(waiting) > 2 and waiting == set(range(1, max(waiting) + 1)) else ""


def _goes_on(work: Work, hit: Hit | None) -> bool:
    """Whether the next part was not due for long when others gave up, as times tell it."""
    last, over = moment_of(work.text), hit.when if hit is not None else None
    return last is not None and over is not None and 0 <= over - last <= _DUE * work.every_s


def _pace(work: Work) -> str:
    """How many parts are done, and how long each takes."""
    if not work.parts:
        return ""
    return f", {work.parts} parts so far" + (f", one each {work.every_s:.0f} s" if work.every_s >= 1 else "")


def _works(finding: Finding, scans: Sequence[Scan]) -> Iterator[tuple[tuple[bool, bool, bool, int], str, str, Work]]:
    """Works that others may have waited for, each behind what makes it likely: its rank lags, it counts, has a rank."""
    waiting = {who for scan in scans for who in _who_waits(finding.name, scan)}
    lagging = re.search(r"\brank (\d[\d, ]{0,80}) (?:lags|never came)", finding.title)
    behind = set(re.findall(r"\d+", lagging[1])) if lagging else set()
    for scan in scans:
        hit = scan.hits.get(finding.name)
        first = hit.lines[0][0] if hit is not None and hit.lines else 0
        works = dict(scan.course.busy.open)
        if (slow := _slow(scan.course.busy.data)) is not None:
            works[slow[0]] = slow[1]
        tries, said = scan.retried
        if tries and (rank := rank_of(said)) in behind:
            works[rank] = Work("download", tries, said.strip())
        for rank, work in works.items():
            counted = counts(work.text)
            near = _FAR if counted else _NEAR
            if (work.line <= scan.alive and work.kind != "input") or work.line < (first or scan.lines) - near:
                continue  # steps came after it, or much else
            if work.parts and not (first and work.line > first) and not _goes_on(work, hit):
                continue  # the last part may have been the last of all
            if (rank not in behind and rank in waiting) or (work.kind == ALONE and work.line < first):
                continue
            yield (rank in behind, counted, bool(rank), work.line), scan.source, rank, work


def _long_works(
    finding: Finding, scans: Sequence[Scan]
) -> Iterator[tuple[tuple[bool, bool, bool, int], str, str, Work]]:
    """Works that ended after the timeout, and took about as long as others waited, or longer."""
    for scan in scans:
        hit = scan.hits.get(finding.name)
        times = [int(each["ms"]) / 1e3 for each in map(dict, hit.groups) if each.get("ms", "").isdigit()] if hit else []
        if hit is None or not hit.lines or not times:
            continue
        waiting = set(_who_waits(finding.name, scan))
        for rank, (seconds, work) in scan.course.busy.long.items():
            if work.line > hit.lines[0][0] and seconds >= _SHARE * min(times) and not (rank and rank in waiting):
                yield (False, True, bool(rank), work.line), scan.source, rank, work


def _who_waits(name: str, scan: Scan) -> Iterator[str]:
    """The ranks that say that they waited until their time was over."""
    hit = scan.hits.get(name)
    if hit is None:
        return
    if name == "rendezvous-timeout":
        yield from (who.removeprefix("rank ") for who in hit.who)
    for each in map(dict, hit.groups):
        if "rank" in each and ("ms" in each or "op" in each):
            yield each.get("who", each["rank"])


def _slow(data: Mapping[str, tuple[float, int, str]]) -> tuple[str, Work] | None:
    """The rank that waited far longer for its data than all others."""
    if len(data) < 2:
        return None
    by_time = sorted(data.items(), key=lambda each: -each[1][0])
    (rank, (longest, line, text)), (_, (next_one, _, _)) = by_time[:2]
    return (rank, Work("input", line, text)) if longest >= max(_SLOW, _TIMES * next_one) else None
