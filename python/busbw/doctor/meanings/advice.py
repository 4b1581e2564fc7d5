"""What mends an error of a program: by what its words mean, where it was thrown, and what it advises itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.finding import Evidence, Finding, Severity
from busbw.doctor.lines.beside import Beside, Frame
from busbw.doctor.lines.scanned import Scan
from busbw.doctor.lines.speakers import speaker
from busbw.doctor.meanings import mpich
from busbw.doctor.meanings.areas import thrown_in
from busbw.doctor.meanings.codes import code_in
from busbw.doctor.meanings.families import Family
from busbw.doctor.meanings.machine_errors import MACHINE, OF_MACHINES, WHOLE
from busbw.doctor.meanings.particulars import PARTICULARS
from busbw.doctor.meanings.program_errors import BROAD, FAMILIES, WEAK
from busbw.doctor.meanings.runtime_errors import RUNTIME
from busbw.doctor.meanings.sentences import meant
from busbw.doctor.meanings.torch_errors import TORCH
from busbw.doctor.meanings.training_errors import TRAINING
from busbw.doctor.signature import Stage
from busbw.doctor.signatures import SIGNATURES
from busbw.doctor.xids import XIDS

UNKNOWN = "unknown-error"
BY_NAMES = "an error in words that no signature knows, by what it names: "
"""How the title begins of an error that only the part of the system is known of."""
_LOOK = 1200
MAX_HINT = 200
_THIN = 60
"""Characters of a message that names no more than a kind of error."""
_INNER = 3
"""Of the frames of a traceback: what is called further out says little of the error."""

_ALL = frozenset({"python-exception", "unknown-error", "ray-error", "xla-error", "torch-distributed-error"})
"""Findings that tell that a program failed, and not of what."""
_SOME = frozenset({"collective-mismatch", "rank-count", "gpu-memory-full", "window-mismatch", "watchdog-timeout"})
_SOME |= {
    "container-start",
    "slurm-error",
    "node-lost",
    "undefined-symbol",
    "rank-variables",
    "job-cancelled",
    "command-not-found",
    "graph-capture",
    "process-crashed",
    "cuda-ipc",
    "mpi-network",
    "server-waits",
    "file-system",
    "invalid-argument",
    "cuda-call-failed",
    "illegal-access",
    "gpu-exception",
    "cuda-not-supported",
}
"""Findings of a kind of fault: words that tell which of that kind it is stand before what is said of all."""
_GENERAL = frozenset({"rank-count", "collective-mismatch"})
"""Whose own title says no more than that some ranks differ: what is known of the words stands in its place."""
_OBJECTS = (
    re.compile(r":_tensor_to_object$|:_object_to_tensor$|:(?:broadcast|all_gather|gather|scatter)_object"),
    "in a collective of objects",
    "let all ranks call the same collectives in the same order and group: these bytes were of another call "
    "(TORCH_DISTRIBUTED_DEBUG=DETAIL names it). Objects must be picklable on all ranks, with the same code there",
)
_PARTS = (
    _OBJECTS,
    *(
        (re.compile(words, re.IGNORECASE), where, cure)
        for words, where, cure in (
            (
                r"_symmetric_memory|symm_mem",
                "in symmetric memory",
                "a GPU of its own for each rank, all in one NVLink domain with fabric manager (between hosts IMEX) up; "
                "TORCH_SYMM_MEM_DISABLE_MULTICAST=1 without multicast; VLLM_ALLREDUCE_USE_SYMM_MEM=0 does without",
            ),
            (
                r"custom_all_reduce|custom_ar|ipcUtils",
                "in the server's own all-reduce",
                "switch it off: --disable-custom-all-reduce; then look at peer access between the GPUs: "
                "nvidia-smi topo -p2p r",
            ),
            (
                r"deep_ep|pplx_kernels|nvshmem",
                "in NVSHMEM's part (DeepEP, pplx)",
                "one release of NVSHMEM and driver on all nodes, IBGDA allowed by the driver "
                "(PeerMappingOverride=1, EnableStreamMemOPs=1)",
            ),
            (
                r":[\w.]{0,60}launch_?kernel\w*$|:cuLaunchKernel",
                "where a kernel is launched",
                "print block and grid there: at most 1024 threads per block (fewer where a kernel takes many registers "
                "or much shared memory). Take more blocks in their place; no size may be 0",
            ),
            (
                r"cuda_graph|cudagraph|graph_runner",
                "while a CUDA graph is captured or replayed",
                "try without graphs first (--enforce-eager, --disable-cuda-graph)",
            ),
        )
    ),
)
"""Parts of programs, by the files of a traceback, that tell more than the error which they got."""

_ADVISES = re.compile(
    r"^(?:please\b|try\b|set\b|use\b|consider\b|(?:de|in)crease\b|make sure|ensure\b|check\b|(?:re)?install\b"
    r"|(?:up|down)grade\b|pass\b"
    r"|add\b|reduce\b|provide\b|specify\b|call\b|(?:re-?)?run \S|hint\b|to fix|(?:you|this) (?:can|need|should"
    r"|may)\b|choose\b|enable\b"
    r"|disable\b|drop\b|remove\b|omit\b|rebuild\b|(?:re)?start\b|switch\b|change\b|adjust\b|lower\b|raise\b|select\b|pick\b|convert\b"
    r"|update\b|verify\b|replace\b|rename\b|delete\b|download\b|configure\b|either (?:use|set|pass|call)\b"
    r"|supply\b|leave\b|override\b|create\b|move\b|wrap\b|load\b|save\b|increase\b|avoid\b|do not\b|keep\b)"
    r"|\b(?:please|try to|make sure|you (?:need to|should|must|can)|need to convert|can be fixed|instead of|hint:"
    r"|set (?:the )?(?:env|environment)|to (?:allow|override|disable) )\b",
    re.IGNORECASE,
)
_NO_ADVICE = re.compile(
    r"CUDA_LAUNCH_BLOCKING|TORCH_USE_CUDA_DSA|^check failed"
    r"|for debugging|report|(?:file|open|raise|submit|create) (?:an? "
    r")?(?:\w+ )?issue|NCCL_DEBUG|for (?:more )?details"
    r"|see (?:root cause|the)|above|stack ?trace|HYDRA_FULL_ERROR|^\W*see\b|^(?:run|start|use|call|set|pass"
    r"|change|update|switch|select)\w*\W*$",
    re.IGNORECASE,
)
_URL = re.compile(r"(?:,? (?:at|see|from)?:? ?)?[(<]?https?://[^\s)>]{1,300}[)>]?\.?")
_XID = re.compile(r"\bXid(?:\b[^)\n]{0,60}\): |[ :#=]{1,3})(\d{1,3})\b")
_THROWN = re.compile(r"\b[A-Z]\w{0,60}(?:Error|Exception|Failure|Invalid)\b|Assertion failed|Check failed")
_NAME = re.compile(r"(?:^|[\s\])>|'\"(:])[A-Za-z_][\w.]{2,120}(?:Error|Exception|Failure|Invalid|NotFound)\b: ?")
_PREFIX = re.compile(
    r"^(?:\s{0,6}(?:\[[^\]\n]{1,60}\]|\([^)\n]{1,60}\)|<\w{1,10}>|\d[\d:.,/-]{5,30}[Z]?|[WIEF]\d{4}|(?:ERROR|FATAL|CRITICAL|error)\b"
    r"|\w[\w.-]{0,40}\.(?:py|cc|cpp|cu|h|go|c):\d{1,6}\]?)[\s:|-]{0,4}){1,8}"
)
_OWN_CHECK = re.compile(r'INTERNAL ASSERT FAILED at "[^"]{1,400}":\d{1,6}, please report a bug to PyTorch\.? ?')
"""What PyTorch puts before the sentence of a check of its own state."""
_SENTENCE = re.compile(r"(?<=[.!?;:])\s+|\n")
_HEAD = re.compile(r"^(?:\[?\w{0,12}\d*\]?:\s*)?[\w.]{0,120}(?:Error|Exception)\b: ?")


def with_advice(findings: Sequence[Finding], scans: Sequence[Scan]) -> list[Finding]:
    """The findings, with a cure that fits the words of the error where those are known."""
    beside = {(scan.source, number): each for scan in scans for number, each in scan.beside.items()}
    texts = {(scan.source, number): text for scan in scans for number, text in _texts(scan)}
    return [_advised(each, beside, texts) for each in findings]


def _texts(scan: Scan) -> Iterator[tuple[int, str]]:
    for hit in scan.hits.values():
        yield from hit.lines
    yield from scan.strange
    yield from scan.odd


Where = tuple[str, int]
_SUMS_UP = re.compile(r"^\W{0,4}No devices were found|couldn't communicate with the NVIDIA driver")


def _advised(finding: Finding, beside: Mapping[Where, Beside], texts: Mapping[Where, str]) -> Finding:
    if finding.severity is not Severity.NOTE and finding.name == mpich.NAME:
        near = [(seen.where, seen.line + at) for seen in finding.evidence if seen.line for at in range(mpich.DEEPEST)]
        lines = (part for each in near for part in (texts.get(each, ""), beside.get(each, Beside()).after))
        return mpich.with_stack(finding, "\n".join(lines))
    if finding.severity is Severity.NOTE or finding.name not in _ALL | _SOME | OF_MACHINES:
        return finding
    # What only sums up that no GPU is there tells less than the lines that say why.
    for seen in sorted(finding.evidence, key=lambda each: _SUMS_UP.search(each.fact) is not None):
        if seen.line is None:
            continue
        around = beside.get((seen.where, seen.line), Beside())
        said = texts.get((seen.where, seen.line), seen.fact)[:_LOOK]
        told = _told(finding, f"{said}{around.after}", said, around.frames)
        if told is not finding:
            return _thrown_at(told, around.frames, seen)
        if finding.name in _ALL and around.frames:
            return _thrown_at(finding, around.frames, seen)
    return finding


def _told(finding: Finding, text: str, said: str, frames: Sequence[Frame]) -> Finding:
    """The finding with meaning and cure of its family, of the part where it was thrown, or with its own advice."""
    places = [f"{frame.file}:{frame.name}" for frame in frames]
    # Broken hardware is broken, and full memory full, whichever part of a program notices it.
    known = SIGNATURES.get(finding.name)
    notices = finding.name == "gpu-memory-full" or (known is not None and known.stage is Stage.HARDWARE)
    part = None if notices else next((each for each in _PARTS if any(map(each[0].search, places))), None)
    files = " ".join(places[-_INNER:])
    family = _family((said, text, files) if finding.name in _ALL else (said, text), of=finding.name)
    hint = own_advice(text) if finding.name in _ALL else ""
    if part is not None and (part is _OBJECTS or family is None or family in BROAD):
        _, where, cure = part
        # What is known of this very sentence stands before what is known of where it was thrown.
        exact = finding.name in PARTICULARS and finding.fix != SIGNATURES[finding.name].cure
        fix = f"{finding.fix}. Also: {cure}" if exact else f"{cure}. Also: {finding.fix}"
        return replace(finding, title=f"{finding.title}: thrown {where}", fix=fix)
    fix, title = finding.fix, finding.title
    if finding.name == "gpu-exception" and (number := _XID.search(said)) and int(number[1]) in XIDS:
        meaning, action = XIDS[int(number[1])]
        return replace(finding, title=f"{title}: {meaning}", fix=f"{action}. Also: {fix}")
    if family is not None and family.meaning in title and (finding.name not in _SOME or family.cure in fix):
        return finding
    if family is not None:
        general = finding.name in _GENERAL and title == SIGNATURES[finding.name].title
        told = title if family.meaning in title else f"{title}: {family.meaning}"
        title, fix = (
            family.meaning if general else told,
            f"{family.cure}{'' if finding.name in _ALL - {UNKNOWN} or family.meaning in WHOLE else f'. Also: {fix}'}",
        )
    if hint:
        fix = f"{fix}. Its own advice: {hint}" if family else f"Its own advice: {hint}. Also: {fix}"
    told_well = family is not None and family in FAMILIES and not family.weak
    area = thrown_in(frames) if finding.name in _ALL and not told_well else ""
    title += f" (thrown in {area})" if area else ""
    if not family and not hint and not area:
        return finding
    unknown = finding.name == UNKNOWN or finding.title.startswith(BY_NAMES)
    if family is not None and (
        (finding.name == UNKNOWN and _THROWN.search(said)) or (unknown and family in _OF_PROGRAMS)
    ):
        # What the words mean stands before the words.
        words = shortened(clean(said.strip()), MAX_HINT)
        title = f"a program failed: {family.meaning}: {words}"
        return replace(finding, title=title, fix=fix, name="python-exception")
    return replace(finding, title=title, fix=fix)


_OF_PROGRAMS = (*TORCH, *TRAINING)
"""What is meant stands before the words in the title: each row is of one check of one program."""


def _family(texts: Sequence[str], *, of: str) -> Family | None:
    """What the line itself means, before what the lines behind it and the files of its traceback add."""
    known: list[Family] = []
    if of in OF_MACHINES:
        known += MACHINE
    if of in _ALL or of in _SOME:
        known += [
            each for each in (*_OF_PROGRAMS, *RUNTIME, *FAMILIES) if not each.weak and (of in _ALL or not each.broad)
        ]
    said, after = texts[0], texts[1][len(texts[0]) :]
    thin = len(_HEAD.sub("", said.strip())) < _THIN or said.rstrip().endswith(":")
    narrow = [each for each in known if each not in BROAD and not each.broad]
    # An exception of several lines says in its first one little more than its kind.
    looks = ((said, narrow), (after if thin else "", narrow), (said, known))
    if found := _first(looks):
        return found
    if of in _ALL and not code_in(said) and (formed := _formed(said) or (_formed(after) if thin else None)):
        return formed
    weak = WEAK if of in _ALL else ()
    return _first((*((where, known) for where in (after, *texts[2:])), (said, weak), (after, weak)))


def _first(looks: Iterable[tuple[str, Sequence[Family]]]) -> Family | None:
    return next((each for where, rows in looks for each in rows if where and each.words.search(where)), None)


_ANY = re.compile("")
_CHECKED = "a check that PyTorch makes of its own state failed"
_CURE_OF_CHECK = (
    "See that all nodes and images load one PyTorch and extensions built for it; look for an earlier error of that "
    "rank; then the newest patch release, since what is left is a fault of PyTorch"
)


def _formed(text: str) -> Family | None:
    """What the sentence of an error says by its form; of several errors in one line the last, which the others wrap."""
    checked = _OWN_CHECK.search(text)
    text = _OWN_CHECK.sub("", text, count=1)
    errors = list(_NAME.finditer(text.partition("\n")[0]))
    plain = text[errors[-1].end() :] if errors else _PREFIX.sub("", text)
    told = meant(plain.strip())
    if checked:
        meaning = f"{_CHECKED}: {shortened(clean(plain.strip().partition(chr(10))[0]), MAX_HINT)}"
        return Family(_ANY, meaning, f"{told[1]}. {_CURE_OF_CHECK}" if told else _CURE_OF_CHECK)
    return Family(_ANY, *told) if told else None


def own_advice(text: str) -> str:
    """Up to two sentences by which an error says what to do."""
    found = list[str]()
    for each in _SENTENCE.split(text[: 2 * _LOOK]):
        sentence = _URL.sub("", _HEAD.sub("", each.strip())).strip()
        if len(sentence) >= 12 and _ADVISES.search(sentence) and not _NO_ADVICE.search(sentence):
            found.append(shortened(clean(sentence.rstrip(".;:")), MAX_HINT))
    return "; ".join(dict.fromkeys(found[:2]))


_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python3|^<|/conda/lib/")


def _thrown_at(finding: Finding, frames: Sequence[Frame], seen: Evidence) -> Finding:
    """The finding with the places where it was thrown: the innermost, and the program's own before libraries."""
    if not frames:
        return finding
    own = next((each for each in reversed(frames) if not _LIBRARY.search(each.file)), None)
    said = [f"thrown at {_place(frames[-1])}"]
    if own is not None and own != frames[-1]:
        said.append(f"called from {_place(own)}")
    evidence = (*finding.evidence, Evidence(", ".join(said), seen.where, seen.line))
    return replace(finding, title=_with_frame(finding.title, own or frames[-1], seen.fact), evidence=evidence)


_OF_ONE, _OF_OTHERS = "a rank's own program", "; other ranks' errors follow"


def _with_frame(title: str, frame: Frame, said: str) -> str:
    """The title of a program's exception with the rank that says it, and the function and file it was thrown in."""
    if not title.startswith(_OF_ONE):
        return title
    who = speaker(said)
    title = title.replace(_OF_ONE, f"{who}'s own program", 1) if who.startswith("rank ") else title
    place = f"{PurePosixPath(frame.file).name}:{frame.line}"
    where = f" at {place}" if frame.name.startswith("<") else f" in {frame.name} ({place})"
    return title.replace(_OF_OTHERS, shortened(clean(where), 120) + _OF_OTHERS, 1)


def _place(frame: Frame) -> str:
    # Two slashes at the start stay two to pathlib, as POSIX allows them a meaning of their own.
    place = str(PurePosixPath(*PurePosixPath(clean(frame.file)).parts[-3:])).replace("//", "/")
    return f"{place}:{frame.line} ({clean(frame.name)})"


OF_MPI = "MPI says: "
_MPI_ADVISES = re.compile(
    r"\b(?:please|you (?:can|may|should|must|need)|try|either|check|ensure|make sure|consider|usually|use (?:the|--)"
    r"|must be|requires?|correct|increase|decrease|add|remove)\b",
    re.IGNORECASE,
)
_MPI_SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z*\"])")
MAX_MPI_ADVISES = 400


MAX_ADVICE = 400


def mpi_advice(text: str) -> str:
    """What a box of MPI tells its reader to do, in its own words."""
    said = [each for each in _MPI_SENTENCE.split(text.removeprefix(OF_MPI)) if _MPI_ADVISES.search(each)]
    return shortened(clean(" ".join(said)), MAX_ADVICE).rstrip(". ") if text.startswith(OF_MPI) else ""
