"""Processes that wait for a lock file which nobody gives back: a build that was ended in the middle leaves it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reading.shown import Shown
from busbw.doctor.signature import Stage

NAME = "build-lock"
_BATON = re.compile(
    r"\bwait \(\S{0,80}file_baton\.py:\d{1,5}\)|File \"\S{0,160}file_baton\.py\", line \d{1,5},? in wait\b"
)
"""PyTorch's build of extensions, and AITER's, wait until a file with the name `lock` is gone."""
_FILELOCK = re.compile(
    r"\b(?:acquire|__enter__) \(\S{0,80}filelock/_\w{2,12}\.py:\d{1,5}\)"
    r"|File \"\S{0,160}filelock/_\w{2,12}\.py\", line \d{1,5},? in (?:acquire|__enter__)\b"
)
_MAIN = re.compile(r"Thread (?:0x)?[0-9a-fA-F]{1,16} \([\w+]{2,20}\): \"?MainThread\"?")
_USERS = (
    ("huggingface_hub", "the hub's cache (HF_HOME)"),
    ("flashinfer", "FlashInfer's kernels (FLASHINFER_WORKSPACE_BASE)"),
    ("datasets/", "the cache of data sets (HF_DATASETS_CACHE)"),
    ("deep_gemm", "DeepGEMM's kernels (DG_JIT_CACHE_DIR)"),
    ("triton", "Triton's kernels (TRITON_CACHE_DIR)"),
    ("inductor", "torch.compile's kernels (TORCHINDUCTOR_CACHE_DIR)"),
    ("weight_utils", "the server's weights"),
)
_BUILDS = re.compile(
    r"\b_run_ninja_build \(|^\s{0,12}(?:[a-z][\w.-]{0,31}\s{1,12})?\d{2,9}\s[^|$]{0,120}?(?:\b|/)"
    r"(?:ninja|nvcc|cicc|ptxas|cc1plus)(?:\s|$)|^\[\d{1,4}/\d{1,4}\] \S{0,120}(?:nvcc|c\+\+|g\+\+|hipcc)\b"
    r"|Emitting ninja build file|Building extension module"
)
"""Somebody is at work: then others wait for good reason."""
_FILE = re.compile(r"^-[rwx-]{9}\S? .{10,200}?(?:\s|/)(?P<name>lock|\S{1,120}\.lock)\s*$")
_FOLDER = re.compile(r"(?P<where>[~/$][^\s'\"]{0,120}torch_extensions(?:/[^\s'\"]{1,120})?)")
_CAME = re.compile(r"Using \S{1,200} as PyTorch extensions root")
_LOADED = ("Loading extension module", "No modifications detected", "ninja: no work to do", "Time to load ")
_OF_BUILDS = ("ninja", "nvcc", "cicc", "ptxas", "cc1plus", "c++", "g++", "hipcc", "Building extension module")
_TIMEOUTS = frozenset({"watchdog-timeout", "rendezvous-timeout"})
_DEPTH = 24


@dataclass
class _Seen:
    """What one log shows: waits of both kinds, ranks that came to a build, main threads, a builder, the lock's file."""

    baton: list[Evidence] = field(default_factory=list)
    filelock: list[Evidence] = field(default_factory=list)
    came: list[Evidence] = field(default_factory=list)
    of: str = ""
    stacks: int = 0
    builds: bool = False
    file: Evidence | None = None
    folder: str = ""


def examine(facts: Facts) -> Iterator[Finding]:
    alive = {scan.source: scan.alive for scan in facts.scans}
    timed_out = any(not _TIMEOUTS.isdisjoint(scan.hits) for scan in facts.scans)
    for shown in facts.shown:
        if not any("file_baton" in line or "filelock" in line or " extensions root" in line for line in shown.lines):
            continue
        seen = _look(shown)
        if not seen.baton and len(seen.came) > 1 and (seen.file is not None or timed_out):
            seen.baton = seen.came
        waits = seen.baton or seen.filelock
        if not waits or seen.builds or (waits[-1].line or 0) < alive.get(shown.source, 0):
            continue
        if seen.baton:
            yield _of_build(seen)
        elif len(waits) > 1 and len(waits) >= seen.stacks:
            yield _of_cache(seen, sure=timed_out or seen.file is not None)


def _look(shown: Shown) -> _Seen:
    seen, left = _Seen(), 0
    for number, line in enumerate(shown.lines, 1):
        if _MAIN.search(line):
            seen.stacks += 1
        if "file_baton" in line and _BATON.search(line):
            seen.baton.append(_said(shown, number))
        elif " extensions root" in line and _CAME.search(line):
            seen.came.append(_said(shown, number))
        elif "filelock" in line and _FILELOCK.search(line):
            # One stack may hold two frames of the lock.
            if not seen.filelock or number - (seen.filelock[-1].line or 0) > 2:
                seen.filelock.append(_said(shown, number))
            left = _DEPTH
        elif left and not seen.of:
            left -= 1
            seen.of = next((what for words, what in _USERS if words in line), "")
        if any(words in line for words in _LOADED):
            # That extension is there; the next one may not be.
            seen.builds, seen.came = False, []
        elif any(words in line for words in _OF_BUILDS):
            seen.builds = seen.builds or _BUILDS.search(line) is not None
        if "lock" in line and _FILE.match(line):
            seen.file = _said(shown, number)
        if "torch_extensions" in line and (folder := _FOLDER.search(line)) and len(folder["where"]) > len(seen.folder):
            seen.folder = folder["where"].rstrip("/:")  # ls writes a colon behind it
    return seen


def _said(shown: Shown, number: int) -> Evidence:
    return Evidence(clean(shortened(shown.lines[number - 1].strip(), 160)), shown.source, number)


def _of_build(seen: _Seen) -> Finding:
    count = len(seen.baton)
    who = f"{count} processes wait" if count > 1 else "a process waits"
    sure = count > 1 or seen.file is not None
    where = clean(shortened(seen.folder, 100)) or "~/.cache/torch_extensions/*/NAME"
    return Finding(
        NAME, Severity.ERROR if sure else Severity.WARNING,
        f"{who} for the lock of a build of PyTorch's extensions, and none that is shown builds: an earlier build was "
        f"ended in the middle and left the file `lock`{'' if sure else ', unless another process still compiles'}",
        (*seen.baton[:2], *([seen.file] if seen.file else [])),
        Cost("the job hangs before its first step"),
        f"end the job, delete that file (rm -rf {where}) and start again; network and NCCL are well. Build before the "
        "job (DS_BUILD_OPS=1, or one rank alone first), and give each host or job a TORCH_EXTENSIONS_DIR of its own",
        Proof(instruction="ps aux | grep -e ninja -e nvcc on the host (nothing compiles); ls -la of that folder: a "
              "`lock` older than the job"),
        stage=Stage.SETTING,
    )  # fmt: skip


def _of_cache(seen: _Seen, *, sure: bool) -> Finding:
    return Finding(
        NAME, Severity.ERROR if sure else Severity.WARNING,
        f"{len(seen.filelock)} processes wait for a lock file{f' of {seen.of}' if seen.of else ''}, and none of those "
        "that are shown works behind it: its holder hangs, has ended, or works elsewhere",
        tuple(seen.filelock[:2]) + ((seen.file,) if seen.file else ()),
        Cost("the job hangs until that lock is given back"),
        "see who holds it (lslocks, fuser -v FILE.lock on each host that shares the cache) and end that process; where "
        "nobody does, delete the .lock file. Keep the cache on a local disk: locks over NFS outlive their host",
        Proof(instruction="py-spy dump of the holder; ls -la of the cache's *.lock files: one older than the job"),
        stage=Stage.SETTING,
    )  # fmt: skip
