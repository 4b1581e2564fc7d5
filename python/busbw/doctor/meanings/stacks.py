"""Where in the program an error arose, told in the findings of crashes and of captures of CUDA graphs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.finding import Evidence, Finding, Severity
from busbw.doctor.lines.beside import Beside, Frame
from busbw.doctor.lines.scanned import Scan
from busbw.doctor.lines.speakers import speaker

CRASHED, CAPTURE, BAD_ACCESS = "process-crashed", "graph-capture", "illegal-access"
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python3|^<|/conda/lib/")
_PACKAGE = re.compile(r"/(?:site|dist)-packages/(?P<name>\w{1,40})")
_OF_FAULTHANDLER = re.compile(r"Current thread 0x[0-9a-f]{1,16}[^\n]{0,80}\(most recent call first\):")
_CALL = re.compile(r'\n\s{0,8}File "(?P<file>[^"\n]{1,400})", line (?P<line>\d{1,7}) in (?P<name>[\w.<>]{1,80})')
_OF_SIGNAL = re.compile(r"segmentation|SIGSEGV|-11\b|bus error|illegal instruction|floating", re.IGNORECASE)
_WAITS = re.compile(
    r"\.(?:item|tolist|cpu|numpy|nonzero|synchronize|unique)\(|\bprint\(|\.to\(\W{0,2}cpu|\bempty_cache\("
    r"|\b(?:float|int|bool)\(|\bis(?:nan|inf|finite)\("
)
_MAY_BE_NCCL = frozenset({"torch", "cupy", "jax", "jaxlib", "mpi4py", "tensorflow"})
"""Packages that call NCCL themselves: where they crash, it is not ruled out."""
_COMMUNICATES = re.compile(r"distributed|nccl|c10d|comm", re.IGNORECASE)

_OUT_OF_CAPTURE = (
    "take it out of the captured region: .item(), .cpu(), print, branches on a tensor's value, masks (x[mask], "
    "nonzero) and synchronize() wait for the GPU, which a capture forbids. Read values after graph.replay(), and put "
    "torch.where or clamp in place of branches"
)


def with_stack(finding: Finding, scans: Sequence[Scan]) -> Finding:
    """The finding of a crash or of a capture with the line of the program in which it arose, where a stack tells it."""
    if finding.severity is Severity.NOTE or finding.name not in {CRASHED, CAPTURE, BAD_ACCESS}:
        return finding
    beside = {(scan.source, line): each for scan in scans for line, each in scan.beside.items()}
    if finding.name == BAD_ACCESS:
        return _accessed(finding, beside)
    return _crashed(finding, beside) if finding.name == CRASHED else _captured(finding, beside)


def _stacks(finding: Finding, beside: Mapping[tuple[str, int], Beside]) -> Iterator[tuple[Evidence, Beside]]:
    for seen in finding.evidence:
        if seen.line is not None and (found := beside.get((seen.where, seen.line))) is not None:
            yield seen, found


def _captured(finding: Finding, beside: Mapping[tuple[str, int], Beside]) -> Finding:
    for seen, around in _stacks(finding, beside):
        if not around.frames:
            continue
        inner = around.frames[-1]
        own = next((each for each in reversed(around.frames) if not _LIBRARY.search(each.file)), inner)
        # Methods of tensors have no frame: a library's innermost one is what it calls itself.
        waits = inner is own or _WAITS.search(inner.text)
        if not waits or _COMMUNICATES.search(inner.file.rpartition("/site-packages/")[2]):
            continue
        said = f": {clean(shortened(own.text, 60)).rstrip(':')}" if own.text else ""
        # The watchdog meets a capture that the program itself has broken.
        title = (
            f"the captured region itself waits for the GPU, which a CUDA graph's capture forbids: {_place(own)}{said}"
            if _WAITS.search(own.text)
            else f"{finding.title}, in {_place(own)}{said}"
        )
        return replace(
            finding,
            title=title,
            fix=_OUT_OF_CAPTURE,
            evidence=(*finding.evidence, Evidence(f"called in {_place(own)}{said}", seen.where, seen.line)),
        )
    return finding


def _accessed(finding: Finding, beside: Mapping[tuple[str, int], Beside]) -> Finding:
    """The line of the program that waited for its kernel: what it had started last stands above it, or in it."""
    if "index is outside" in finding.title:
        return finding  # told by its own words
    for seen, around in _stacks(finding, beside):
        own = next((each for each in reversed(around.frames) if not _LIBRARY.search(each.file)), None)
        if own is None or (around.frames[-1] is not own and _COMMUNICATES.search(around.frames[-1].file)):
            continue
        who = speaker(seen.fact)
        return replace(
            finding,
            title=f"{finding.title}; it showed{f' on {who}' if who else ''} in {_place(own)}",
            fix=f"look at the kernels that {_place(own)} starts or waits for, and at the indices that it passes: run "
            "that rank with CUDA_LAUNCH_BLOCKING=1, or under compute-sanitizer, with the input of that step. "
            f"Then {finding.fix}",
            evidence=(*finding.evidence, Evidence(f"called in {_place(own)}", seen.where, seen.line)),
        )
    return finding


def _crashed(finding: Finding, beside: Mapping[tuple[str, int], Beside]) -> Finding:
    for seen, around in _stacks(finding, beside):
        head = _OF_FAULTHANDLER.search(around.after)
        if head is None:
            continue
        calls = [Frame(each["file"], each["line"], each["name"]) for each in _CALL.finditer(around.after, head.end())]
        if not calls:
            continue
        inner = calls[0]
        own = next((each for each in calls if not _LIBRARY.search(each.file)), None)
        said = f"in {_place(inner)}"
        said += f", called from {_place(own)}" if own is not None and own is not inner else ""
        fix, package = finding.fix, _PACKAGE.search(inner.file)
        of_nccl = _COMMUNICATES.search(inner.name) or (package and package["name"] in _MAY_BE_NCCL)
        if _OF_SIGNAL.search(seen.fact) and not of_nccl:
            what = f"native code of {package['name']}" if package else "the native library that this line calls"
            fix = (
                f"{what} crashed, {said}, and not NCCL. Call it alone with the input of that step, keep bad input from "
                "it (empty, too long, of another type), and update it or build it anew for this Python and system. "
                "Errors of other ranks follow"
            )
        return replace(
            finding,
            title=f"{finding.title}: {said}",
            fix=clean(fix),
            evidence=(*finding.evidence, Evidence(f"Python's stack of the crash: {said}", seen.where, seen.line)),
        )
    return finding


def _place(frame: Frame) -> str:
    place = f"{PurePosixPath(frame.file).name}:{frame.line}"
    return clean(shortened(place if frame.name.startswith("<") else f"{frame.name} ({place})", 100))
