"""A job on one host that stands still behind its init, where GPUs talk to each other directly over PCIe."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.lines import life
from busbw.doctor.lines.scanned import Scan
from busbw.doctor.meanings.clue_rows import WORKS
from busbw.doctor.signature import Stage
from busbw.doctor.signatures import SIGNATURES
from busbw.machine.nccl.log_model import NcclLog
from busbw.machine.topology.model import PathType

NAME = "p2p-hangs"
_DIRECT = re.compile(r"NCCL INFO Channel \d{1,3}(?:/\d{1,2})? : \d{1,6}\[\w{1,8}\] -> \d{1,6}\[\w{1,8}\] via P2P/")
STANDS = re.compile(
    r"^(?![^\n]{0,500}(?:\b(?:INFO|WARN(?:ING)?|ERROR|DEBUG|not|no|never|without|fixed|solved)\b|n't\b|\w=))[^\n]{0,300}"
    r"\b(?:stalls?|hangs?|hung|stuck|freezes?|frozen|stands still|the last line|nothing (?:happens|changes|more))\b",
    re.IGNORECASE,
)
"""Somebody's own words, as no program writes them; a line of settings or of a program's level is none."""
_TOLD_TO_PASS = re.compile(rf"\bNCCL_P2P_(?:DISABLE=1|LEVEL=LOC)\b{WORKS}")
_TOLD_TO_STAND = re.compile(
    r"^(?![^\n]{0,500}(?:\b(?:INFO|WARN(?:ING)?|ERROR|DEBUG|not|no|never (?:hangs?|stalls?)|fixed|solved)\b|n't\b))"
    r"[^\n]{0,300}\b(?:stalls?|hangs?|hung|stuck|freezes?|frozen|deadlocks?|stands still"
    r"|(?:sits|waits|runs) (?:there )?forever|never (?:returns|ends|finishes))\b",
    re.IGNORECASE,
)
_STACK = re.compile(
    r"^\s{2,16}[\w<>]{2,60} \((?:[\w./-]{0,160}/)?"
    r"(?:pynccl\w*|distributed_c10d|nccl\w*|_functional_collectives)\.py:\d{1,6}\)"
    r"|^\s{0,4}#\d{1,3}\s[^\n]{0,80}\b(?:ncclGroupEnd|ncclAllReduce|ncclCommInitRank\w*|cuStreamSynchronize)\b"
)
_SMI = re.compile(
    r"\|\s{1,4}(?:\d{1,3}%|N/A)\s{1,6}\d{1,3}C\s{1,6}P\d{1,2}\s{1,16}(?P<power>\d{1,4})W ?/ {0,4}(?P<cap>\d{2,4})W \|"
    r"\s{1,10}\d{1,8}MiB ?/ {1,3}\d{3,8}MiB \|\s{1,8}(?P<busy>\d{1,3})%"
)
_PROOF = Proof(
    instruction="run with NCCL_P2P_DISABLE=1; p2pBandwidthLatencyTest hangs or shows little where P2P is broken"
)
_MATRIX_ROW = re.compile(
    r"^\W{0,4}GPU(?P<gpu>\d{1,2})[ \t]{1,12}(?P<cells>(?:(?:X|SYS|NODE|PHB|PXB|PIX)[ \t]{1,12}){2,64})"
)
"""A row of `nvidia-smi topo -m` without an NVLink, up to the columns of GPUs; those of NICs may follow."""
_LOW = 0.6
"""Of the limit of power: kernels of NCCL that wait keep a GPU at 100 % and draw little."""
_LINKS = re.compile(r"^\s{0,4}GPU\d{1,3}[ \t][^\n]{0,200}\bNV\d{1,2}\b|via P2P/\S{0,20}NVLS|NVLink P2P", re.MULTILINE)
_ACS = re.compile(r"ACSCtl:[^\n]{0,80}(?:ReqRedir\+|CmpltRedir\+|UpstreamFwd\+)")
_IOMMU = re.compile(
    r"iommu: Default domain type: Translated|\b(?:intel|amd)_iommu=on\b(?!.{0,200}iommu=pt)"
    r"|(?:DMAR|AMD-Vi): IOMMU enabled"
)
_FAULT = re.compile(r"IO_PAGE_FAULT|DMAR: [^\n]{0,80}\bfault\b|AMD-Vi: Event logged|arm-smmu[^\n]{0,80}\bfault\b")
"""The kernel's word that the IOMMU refused a transfer."""
_WHY = frozenset({"iommu-translates", "iommu-fault"})
"""Signatures of lines that say how the machine is set up."""
_CURE = "to be sure at once: NCCL_P2P_DISABLE=1 (through the host's memory, slower; a server's own all-reduce off). "
_BY_IOMMU = (
    "For good: boot with iommu=pt (intel_iommu=on iommu=pt, amd_iommu=on iommu=pt) or the IOMMU off, and switch ACS "
    "off in the BIOS or by setpci on the bridges (VT-d, AMD-Vi). Virtual machines need both on"
)
_ANY = (
    "Then look at `lspci -vvv | grep ACSCtl`, at the kernel's words of the IOMMU, and take a driver of another release"
)


PASSES = "the same job passes without them"
"""Words of the title where two runs of one log show it."""
_WITHOUT = re.compile(
    r"\bNCCL_P2P_DISABLE(?:=| set by environment to |: )['\"]?1\b"
    r"|\bNCCL_P2P_LEVEL(?:=| set by environment to |: )['\"]?LOC\b"
)
_STOOD = re.compile(
    r"Watchdog caught|\btim(?:ed|es|e) ?out\b|\bfailed to start\b|\^C|KeyboardInterrupt|\bSIG(?:TERM|KILL|INT)\b"
    r"|\b[Ww]aiting for\b|No available shared memory broadcast block|\bCANCELLED\b",
)
"""By what a run shows that it came no further, and was ended for that."""
_WENT_ON = re.compile(
    r"Application startup complete|Uvicorn running on|Avg bus bandwidth|Init(?:ialization)? done\b"
    # vLLM's check of a machine.
    r"|^PyTorch NCCL is successful!|^vLLM NCCL is successful!"
)


def examine(facts: Facts) -> Iterator[Finding]:
    for shown in facts.shown:
        seen = _second_run(shown.lines, shown.source)
        if seen is not None and not _is_told_otherwise(facts, seen[-2].line or 0):
            why = [found for words in (_FAULT, _ACS, _IOMMU) if (found := _anywhere(words, facts)) is not None]
            yield _found(
                f"transfers from GPU to GPU (P2P) never arrive: {_cause(why)}; {PASSES} ({seen[-2].fact[:80]})",
                (*seen, *why),
                _BY_IOMMU if why else _ANY,
            )
            return
    told = list(_by_signs(facts))
    yield from told or _by_word(facts)


def _is_told_otherwise(facts: Facts, second: int) -> bool:
    """Whether NVLinks join the GPUs, or the machine's own errors tell what breaks their transfers.

    Faults of the IOMMU between both runs, the `second` of which begins in that line, are the reason: the good run
    behind them makes light of what ended the first one.
    """
    if facts.machine is not None and facts.machine.nvlinks_per_gpu:
        return True
    if any(_LINKS.search(line) for shown in facts.shown for line in shown.lines):
        return True
    return any(
        (name in _WHY and not (hit.last < second and all(_FAULT.search(line) for _, line in hit.lines)))
        or (SIGNATURES[name].severity is Severity.ERROR and SIGNATURES[name].stage <= Stage.DRIVER)
        for scan in facts.scans
        for name, hit in scan.hits.items()
    )


def _second_run(lines: Sequence[str], source: str) -> tuple[Evidence, ...] | None:
    """The direct channel of a run that stood still, its last words, and a later run without P2P that goes on."""
    set_at = next((at for at, line in enumerate(lines) if "NCCL_P2P_" in line and _WITHOUT.search(line)), len(lines))
    before, after = lines[:set_at], lines[set_at + 1 :]
    direct = next((at for at in range(set_at - 1, -1, -1) if _DIRECT.search(before[at])), None)
    # Who sets it before the first run has no run to lay beside.
    if direct is None or any(_DIRECT.search(line) for line in after):
        return None
    behind = before[direct + 1 :]
    stood = next((at for at, line in enumerate(behind, direct + 1) if _STOOD.search(line) or STANDS.search(line)), None)
    went = next((at for at, line in enumerate(after, set_at + 1) if _goes_on(line)), None)
    if stood is None or went is None or any(map(_goes_on, behind)) or any(map(_stays, after)):
        return None
    return tuple(
        Evidence(clean(shortened(lines[at].strip(), 200)), source, at + 1) for at in (direct, stood, set_at, went)
    )


def _goes_on(line: str) -> bool:
    return _WENT_ON.search(line) is not None or life.ALIVE.search(line[:400]) is not None


def _stays(line: str) -> bool:
    """Whether the later run stands still, or fails, as well."""
    return "Watchdog caught" in line or "Traceback (most" in line or STANDS.search(line) is not None


def _found(title: str, seen: Sequence[Evidence], cure: str) -> Finding:
    return Finding(
        NAME, Severity.ERROR, title, tuple(seen[:5]), Cost("the job hangs"), _CURE + cure, _PROOF, stage=Stage.SYSTEM,
    )  # fmt: skip


def _by_word(facts: Facts) -> Iterator[Finding]:
    """Who writes says that it stands still, and passes without P2P, and no error tells why."""
    for log, scan in zip(facts.logs, facts.scans, strict=True):
        # What holds only by several lines together may be no more than one of them.
        told = [SIGNATURES[name] for name in scan.hits if name not in _WHY]
        if any(each.severity is Severity.ERROR and each.holds is None for each in told) or "p2p-broken" in scan.hits:
            continue
        lines = next((shown.lines for shown in facts.shown if shown.source == log.source), ())
        direct = _first(_DIRECT, lines, log.source) or _pairs(facts, lines, log.source)
        passes = _first(_TOLD_TO_PASS, lines, log.source)
        hangs = _first(_TOLD_TO_STAND, lines, log.source)
        if direct is None or passes is None or hangs is None or any(_LINKS.search(line) for line in lines):
            continue
        if (
            scan.kinds["steps"]
            or scan.kinds["rows"]
            or (direct.line and max(scan.alive, scan.course.done) > direct.line)
        ):
            continue
        why = [found for words in (_ACS, _IOMMU) if (found := _anywhere(words, facts)) is not None]
        yield _found(
            f"transfers from GPU to GPU (P2P) never arrive: {_cause(why)}; with NCCL_P2P_DISABLE=1 the job passes",
            (passes, hangs, direct, *why),
            _BY_IOMMU if why or direct.fact.startswith("below") else _ANY,
        )
        return


def _pairs(facts: Facts, lines: Sequence[str], source: str) -> Evidence | None:
    """GPUs of the machine's matrix that lie below one PCIe switch, where none has an NVLink; the log's own first."""
    if (own := _own_pairs(lines, source)) is not None:
        return own
    if facts.machine is None or facts.machine.nvlinks_per_gpu:
        return None
    near = [
        f"{each.a} and {each.b} ({each.path.value})"
        for each in facts.machine.connections
        if each.path in (PathType.PIX, PathType.PXB) and each.a.startswith("GPU") and each.b.startswith("GPU")
    ]
    return Evidence(f"below one PCIe switch: {', '.join(near[:4])}", source) if near else None


def _own_pairs(lines: Sequence[str], source: str) -> Evidence | None:
    """The same of a matrix in the log itself: a bundle of logs has no other machine than the one that made it."""
    rows = [(number, row) for number, line in enumerate(lines, 1) if (row := _MATRIX_ROW.match(line))]
    # Columns of NICs stand behind those of GPUs, each of which has a row.
    gpus = {int(row["gpu"]) for _, row in rows}
    near: dict[str, int] = {}
    for number, row in rows:
        for other, cell in enumerate(row["cells"].split()):
            if cell in ("PIX", "PXB") and other > int(row["gpu"]) and other in gpus:
                near.setdefault(f"GPU{row['gpu']} and GPU{other} ({cell})", number)
    if not near:
        return None
    return Evidence(f"below one PCIe switch: {', '.join(list(near)[:4])}", source, min(near.values()))


def _by_signs(facts: Facts) -> Iterator[Finding]:
    for log, scan in zip(facts.logs, facts.scans, strict=True):
        if scan.kinds["headers"] or not _stands_behind_init(log, scan):
            continue
        lines = next((shown.lines for shown in facts.shown if shown.source == log.source), ())
        direct = _first(_DIRECT, lines, log.source)
        if direct is None or any(_LINKS.search(line) for line in lines):
            continue
        looks = (_first(STANDS, lines, log.source), _first(_STACK, lines, log.source), _busy(lines, log.source, facts))
        signs = [found for found in looks if found is not None]
        why = [found for words in (_ACS, _IOMMU) if (found := _anywhere(words, facts)) is not None]
        # Words and a stack alone tell as well of ranks that call different collectives.
        if not signs or len(signs) + bool(why) < 2 or not (why or looks[2]):
            continue
        yield _found(
            f"transfers from GPU to GPU over PCIe (P2P) never arrive: {_cause(why)}; the ranks met, and the first "
            "collective stands still",
            (direct, *signs, *why),
            _BY_IOMMU if why else _ANY,
        )


def _cause(why: Sequence[Evidence]) -> str:
    if not why:
        return "ACS, the IOMMU or the driver breaks them"
    if _FAULT.search(why[0].fact):
        return "the IOMMU refuses them (faults in the kernel's log)"
    if len(why) > 1:
        return "ACS and the IOMMU send them up to the processor"
    return f"{'ACS sends' if _ACS.search(why[0].fact) else 'the IOMMU sends'} them up to the processor"


def _anywhere(words: re.Pattern[str], facts: Facts) -> Evidence | None:
    return next((found for each in facts.shown if (found := _first(words, each.lines, each.source)) is not None), None)


def _stands_behind_init(log: NcclLog, scan: Scan) -> bool:
    """Whether all ranks of one host met, and nothing tells of a step, of an end, or of an error after it."""
    places = [place for each in log.communicators for place in each.ranks]
    whole = len(places) > 1 and all(place.complete for place in places) and len({each.host for each in places}) == 1
    end = max((place.end for place in places), default=0)
    went_on = scan.alive > end or scan.ended or scan.course.done > end or scan.kinds["steps"] or scan.kinds["rows"]
    failed = any(
        SIGNATURES[name].severity is Severity.ERROR and SIGNATURES[name].stage < Stage.EFFECT and hit.last > end
        for name, hit in scan.hits.items()
        if name not in _WHY
    )
    return whole and not went_on and not failed


def _first(words: re.Pattern[str], lines: Sequence[str], source: str) -> Evidence | None:
    for number, line in enumerate(lines, 1):
        if words.search(line):
            return Evidence(clean(shortened(line.strip(), 200)), source, number)
    return None


def _busy(lines: Sequence[str], source: str, facts: Facts) -> Evidence | None:
    """All GPUs of the table that work at all at 100 %, with little power where the table is still in the log."""
    states = [gpu for gpu in facts.snapshot.gpus if (gpu.utilisation_percent or 0.0) >= 99.0]
    if len(states) > 1:
        return Evidence(f"{len(states)} GPUs are busy all the time (100%), and no line follows", source)
    rows = [(number, found) for number, line in enumerate(lines, 1) if (found := _SMI.search(line))]
    at_work = [(number, found) for number, found in rows if int(found["busy"]) >= 99]
    if len(at_work) < 2 or any(int(found["power"]) > _LOW * int(found["cap"]) for _, found in at_work):
        return None
    number, found = at_work[0]
    return Evidence(
        f"{len(at_work)} GPUs are busy all the time ({found['busy']}%) and draw little ({found['power']} of "
        f"{found['cap']} W): kernels that wait", source, number,
    )  # fmt: skip
