"""The same test twice in one log, where one release or setting gives far more than the other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import median

from busbw.analysis.units import format_bytes
from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor import relaxed_tests
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reading.shown import Shown
from busbw.doctor.signature import Stage

NAME = "runs-differ"
LARGE_BYTES = 1 << 20
FASTER, FEWEST = 1.5, 2
"""By so much in the middle of so many large sizes: runs of one test on one machine differ by far less."""
_MOST_RUNS = 16
_VERSION = re.compile(r"\bNCCL version (?P<version>2\.\d{1,2}\.\d{1,2})")
_COMMAND = re.compile(r"[$#>+] .{0,1500}\b(?P<program>[a-z_]{4,20}_perf)\b|[$#>] ?mpirun \.\.\. ")
_PROGRAM = re.compile(
    r"\b(?P<program>(?:all_reduce|all_gather|reduce_scatter|broadcast|alltoall|sendrecv|reduce)_perf)\b"
)
_SET = re.compile(r"(?<!\w)(?P<name>NCCL_[A-Z0-9_]{2,40})=(?P<value>[^\s\"']{1,80})")
_HOSTS = re.compile(
    r"\s(?:-H|--host|-hostfile|--hostfile|-w)[ =](?P<hosts>\S{1,200})|\s(?:-np?|-g) (?P<count>\d{1,6})\b"
)
_HEAD = re.compile(r"#\s?(?:nThread \d|Collective test starting)")
_ROW = re.compile(
    r"\s{1,20}(?P<bytes>\d{1,14})\s{1,14}\d{1,14}\s{1,12}[a-z]\w{1,12}(?:\s{1,12}[a-z]\w{1,12})?\s{1,12}-?\d{1,6}\s{1,12}"
    r"\d[\d.]{0,12}\s{1,12}\d[\d.]{0,12}\s{1,12}(?P<busbw>\d[\d.]{0,12})\s"
)
_IN_TURN = frozenset({"NCCL_ALGO", "NCCL_PROTO"})
"""What somebody sets to several values in turn, to see what each gives."""
_NO_CHOICE = frozenset({"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE", "NCCL_IB_SL", "NCCL_IB_TC"})
"""What changes no rate, and what the finding of service levels tells."""
_ECE = re.compile(r"\bset_ece=\{supported=1")
_NO_LINKS = re.compile(r"^Unknown(?: speed)?\s{0,3}$|link_speed=\"(?:Unknown)?\"")
_CLOUD = re.compile(
    r"\b(?:p[345]\w{0,3}|g[456]\w{0,2})\.\d{1,2}xlarge\b|\bNCCL_TOPO\w*\s{0,3}$|\bStandard_N[DC]\w{2,30}|^(?:amazon|kvm)$"
)


@dataclass
class _Run:
    """One table, with the release, settings and hosts by which it came about, as far as the log shows them."""

    source: str
    version: str = ""
    program: str = ""
    places: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    commanded: bool = False
    rates: dict[int, tuple[float, Evidence]] = field(default_factory=dict)


def examine(facts: Facts) -> Iterator[Finding]:
    for shown in facts.shown:
        runs = _runs(shown)
        told = _by_release(runs, shown) or _by_setting(runs)
        if told is not None:
            yield told
    yield from relaxed_tests.examine(facts, NAME)


def _runs(shown: Shown) -> list[_Run]:
    done, run = list[_Run](), _Run(shown.source)
    for number, line in enumerate(shown.lines, 1):
        command = _COMMAND.search(line) if "_perf" in line or "mpirun ..." in line else None
        if run.rates and (command or _HEAD.match(line) or "NCCL version" in line or "# Avg bus" in line):
            done.append(run)
            run = _Run(shown.source, run.version, run.program, run.places, run.settings, run.commanded)
        if command is not None:
            _command(run, line)
        elif "NCCL version" in line and (found := _VERSION.search(line)):
            run.version = found["version"]
        elif (row := _ROW.match(line)) and (size := int(row["bytes"])) >= LARGE_BYTES:
            rate = float(row["busbw"])
            if rate > run.rates.get(size, (0.0,))[0]:
                run.rates[size] = rate, Evidence(clean(shortened(line.strip(), 140)), shown.source, number)
    return [*done, run][:_MOST_RUNS] if run.rates else done[:_MOST_RUNS]


def _command(run: _Run, line: str) -> None:
    """What a command says of the run; of dots in place of its words nothing is known but what follows them."""
    found = _PROGRAM.search(line)
    same = "..." in line or "(same)" in line
    run.version, run.commanded = "", True
    run.program = found["program"] if found else run.program
    if not same:
        run.settings = {}
        run.places = tuple(sorted(each[0].strip() for each in _HOSTS.finditer(line)))
    run.settings = {**run.settings, **{each["name"]: each["value"] for each in _SET.finditer(line)}}
    if same and (hosts := tuple(sorted(each[0].strip() for each in _HOSTS.finditer(line)))):
        run.places = hosts


def _alike(one: _Run, other: _Run) -> bool:
    """Whether nothing tells of another test or of other hosts."""
    return one.program == other.program and (one.places == other.places or not (one.places and other.places))


def _factor(fast: _Run, slow: _Run) -> tuple[float, int]:
    """How much faster in the middle of all sizes that both have, and the largest of these; 0 where these are few."""
    sizes = sorted(fast.rates.keys() & slow.rates.keys())
    if len(sizes) < FEWEST:
        return 0.0, 0
    return median(fast.rates[each][0] / (slow.rates[each][0] or 1e-9) for each in sizes), sizes[-1]


def _best(runs: Sequence[_Run], version: str) -> list[_Run]:
    """The runs with a release; of those that are alike the best of each size."""
    kept = list[_Run]()
    for run in (each for each in runs if each.version == version):
        twin = next((each for each in kept if _alike(each, run) and _choices(each) == _choices(run)), None)
        if twin is None:
            kept.append(run)
            continue
        for size, row in run.rates.items():
            if row[0] > twin.rates.get(size, (0.0,))[0]:
                twin.rates[size] = row
    return kept


def _choices(run: _Run) -> dict[str, str]:
    return {name: value for name, value in run.settings.items() if name not in _NO_CHOICE}


def _by_release(runs: list[_Run], shown: Shown) -> Finding | None:
    versions = dict.fromkeys(each.version for each in runs if each.version)
    for one, other in combinations(versions, 2):
        for a in _best(runs, one):
            for b in _best(runs, other):
                if not _alike(a, b) or _choices(a) != _choices(b):
                    continue
                for fast, slow in ((a, b), (b, a)):
                    factor, size = _factor(fast, slow)
                    if factor >= FASTER:
                        return _release(fast, slow, factor, size, shown)
    return None


def _release(fast: _Run, slow: _Run, factor: float, size: int, shown: Shown) -> Finding:
    why, cure, seen = _what_is_new(shown)
    newer = tuple(map(int, slow.version.split("."))) > tuple(map(int, fast.version.split(".")))
    return Finding(
        NAME, Severity.WARNING,
        f"NCCL {slow.version} reaches {slow.rates[size][0]:.3g} GB/s at {format_bytes(size)}, where {fast.version} "
        f"reaches {fast.rates[size][0]:.3g} in the same test{why}",
        (slow.rates[size][1], fast.rates[size][1], *seen),
        Cost(f"{factor:.1f} times less with that release", factor, "the same test with the other release"),
        f"{cure}{'else go back to' if cure else 'take'} NCCL {fast.version}"
        f"{', or a release newer than ' + slow.version if newer else ''} (LD_LIBRARY_PATH or LD_PRELOAD of its "
        "libnccl.so.2). Cables, NICs and GPUs are the same in both runs, and so not at fault",
        Proof(instruction="run both with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET,TUNING, and compare: "
                          "channels, graph, algorithm, and how connections are made"),
        stage=Stage.SYSTEM,
    )  # fmt: skip


def _what_is_new(shown: Shown) -> tuple[str, str, tuple[Evidence, ...]]:
    """What the log shows that the two releases do differently, its cure, and where it stands."""
    if (seen := _first(_ECE, shown)) is not None:
        return (
            ", and negotiates ECE (set_ece), by which the NICs take another way against congestion",
            "NCCL_IB_ECE_ENABLE=0 on all ranks, and ask the NIC's maker for the settings of that congestion control "
            "(mlxconfig: USER_PROGRAMMABLE_CC, ROCE_CC_PRIO_MASK); ",
            (seen,),
        )
    if (cloud := _first(_CLOUD, shown)) is not None and (links := _first(_NO_LINKS, shown)) is not None:
        return (
            ": the virtual machine hides how GPUs are joined, and so each release guesses another graph",
            "give NCCL the topology of that machine type: NCCL_TOPO_FILE, which the cloud's plugin brings (for AWS "
            "aws-ofi-nccl: share/aws-ofi-nccl/xml/TYPE-topo.xml, set by itself where it is installed); ",
            (cloud, links),
        )
    return "", "", ()


def _first(words: re.Pattern[str], shown: Shown) -> Evidence | None:
    for number, line in enumerate(shown.lines, 1):
        if words.search(line):
            return Evidence(clean(shortened(line.strip(), 160)), shown.source, number)
    return None


def _by_setting(runs: list[_Run]) -> Finding | None:
    """One variable in a command, with which the same test goes far better than without it."""
    for one, other in combinations([each for each in runs if each.commanded], 2):
        for fast, slow in ((one, other), (other, one)):
            mine, theirs = _choices(fast), _choices(slow)
            names = {name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name)}
            if len(names) != 1 or not _alike(fast, slow) or fast.version != slow.version:
                continue
            name = names.pop()
            if name in _IN_TURN and name in theirs:
                continue  # each algorithm by itself: they differ by their nature
            factor, size = _factor(fast, slow)
            # What somebody switched off to see what it gives is no fault: the faster run has to be the one with it.
            if name in mine and factor >= FASTER:
                return _setting(f"{name}={clean(mine[name])}", theirs.get(name, ""), (fast, slow), factor, size)
    return None


def _setting(told: str, other: str, runs: tuple[_Run, _Run], factor: float, size: int) -> Finding:
    fast, slow = runs
    without = f"with {told.partition('=')[0]}={clean(other)}" if other else "without it"
    return Finding(
        NAME, Severity.WARNING,
        f"{told} gives {fast.rates[size][0]:.3g} GB/s at {format_bytes(size)}, and the same test {without} "
        f"{slow.rates[size][0]:.3g}",
        (slow.rates[size][1], fast.rates[size][1]),
        Cost(f"{factor:.1f} times less without that setting", factor, "the same test with it"),
        f"set {told} for the job as well, on all ranks. Then look why NCCL does not choose it: what it switches off or "
        "names is what is slow here",
        Proof(instruction="run both once more, one after the other, and see that the difference stays"),
        stage=Stage.SYSTEM,
    )  # fmt: skip
