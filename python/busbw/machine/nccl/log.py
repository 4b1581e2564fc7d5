"""Reads logs made with NCCL_DEBUG=INFO by any NCCL 2.x into a NcclLog, in one pass and bounded memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from busbw.base.secrets import shortened
from busbw.machine.nccl.log_choices import Choices
from busbw.machine.nccl.log_communicator import CONNECTION, Builder
from busbw.machine.nccl.log_hardware import PATTERN, HardwareSeen
from busbw.machine.nccl.log_lines import Line, messages
from busbw.machine.nccl.log_model import Message, NcclLog, Said, Variable

MAX_COMMUNICATORS = 4096
MAX_KEPT = 100_000
MAX_WORDS = 1000
SURELY_REFUSED = 3  # messages with one beginning that no handler took: further ones are not tried
_DIGITS = b"0123456789"
_NAMES = re.compile(r"[A-Z][A-Z0-9_]{2,80}")

Handler = Callable[["_Reading", Line, "re.Match[str]"], None]


@dataclass(slots=True)
class _Reading:
    """What was read so far."""

    source: str
    versions: dict[str, Said] = field(default_factory=dict)
    header_version: int | None = None
    library_version: int | None = None
    network: Said | None = None
    networks: dict[str, Said] = field(default_factory=dict)
    plugins: dict[str, Said] = field(default_factory=dict)
    net_devices: dict[str, None] = field(default_factory=dict)
    net_devices_line: int | None = None
    bootstrap: Said | None = None
    gdr: dict[str, Said] = field(default_factory=dict)
    tuner: Said | None = None
    thresholds: str | None = None
    tuning: list[Said] = field(default_factory=list)
    choices: Choices = field(default_factory=Choices)
    sayers: dict[str, dict[str, None]] = field(default_factory=dict)
    variables: dict[tuple[str, str], Variable] = field(default_factory=dict)
    kept: dict[tuple[str, int, int, str], str] = field(default_factory=dict)
    warnings: dict[tuple[str, str], Message] = field(default_factory=dict)
    affinities: dict[str, Said] = field(default_factory=dict)
    gpu_names: dict[str, str] = field(default_factory=dict)
    hardware: HardwareSeen = field(default_factory=HardwareSeen)
    communicators: dict[str, Builder] = field(default_factory=dict)
    threads: dict[tuple[str, int, int], str] = field(default_factory=dict)
    devices: dict[tuple[str, int, int], str] = field(default_factory=dict)
    latest: str = ""
    likely: dict[bytes, tuple[int, ...]] = field(default_factory=dict)
    refused: dict[bytes, int] = field(default_factory=dict)
    messages: int = 0
    unread: int = 0
    lines: int = 0
    notes: dict[str, None] = field(default_factory=dict)

    def communicator(self, line: Line) -> Builder:
        """The communicator that the line is about: by its thread, else its process and device, else the latest."""
        known = self.threads.get((line.host, line.pid, line.tid))
        return self.named(known or self.devices.get((line.host, line.pid, line.device)) or self.latest)

    def named(self, name: str) -> Builder:
        if name not in self.communicators:
            if len(self.communicators) >= MAX_COMMUNICATORS:
                self.notes[f"more than {MAX_COMMUNICATORS} communicators; the rest is counted with the last"] = None
                return next(reversed(self.communicators.values()))
            self.communicators[name] = Builder(name)
        return self.communicators[name]

    def begins(self, line: Line, name: str) -> Builder:
        """A thread turns to that communicator."""
        self.latest = name
        if len(self.threads) < MAX_KEPT:
            self.threads[line.host, line.pid, line.tid] = name
            self.devices[line.host, line.pid, line.device] = name
        return self.named(name)


def read_log(lines: Iterable[str], source: str) -> NcclLog:
    """Read a log. Never fails: what is no message of NCCL is skipped, what is not understood is counted."""
    return read_numbered(enumerate(lines, 1), source)


def read_numbered(lines: Iterable[tuple[int, str]], source: str) -> NcclLog:
    """As `read_log`, of lines with their numbers, of which some may be left out."""
    reading = _Reading(source)
    for said in messages(lines):
        if not isinstance(said, Line):
            _header(reading, *said)
            continue
        reading.messages += 1
        reading.lines = said.number
        if said.warning:
            _warn(reading, said)
        elif not _understood(reading, said):
            reading.unread += 1
    return _finished(reading)


def _finished(reading: _Reading) -> NcclLog:
    communicators = [builder.finished() for builder in reading.communicators.values()]
    return NcclLog(
        source=reading.source,
        versions=reading.versions,
        header_version=reading.header_version,
        library_version=reading.library_version,
        network=reading.network,
        networks=reading.networks,
        plugins=tuple(reading.plugins.values()),
        net_devices=tuple(reading.net_devices),
        net_devices_line=reading.net_devices_line,
        bootstrap=reading.bootstrap,
        gdr=reading.gdr,
        tuner=reading.tuner,
        thresholds=reading.thresholds,
        tuning=tuple(reading.tuning),
        choices=reading.choices.first,
        choices_of=reading.choices.of_each,
        sayers={name: tuple(hosts) for name, hosts in reading.sayers.items()},
        variables=tuple(reading.variables.values()),
        warnings=tuple(reading.warnings.values()),
        affinities=tuple(reading.affinities.values()),
        gpu_names=reading.gpu_names,
        hardware=reading.hardware.known,
        communicators=tuple(each for each in communicators if each.says_anything),
        messages=reading.messages,
        unread=reading.unread,
        lines=reading.lines,
        notes=tuple(reading.notes),
    )


def _understood(reading: _Reading, line: Line) -> bool:
    """Whether some handler took the line. Those that took lines with this first word before are tried first."""
    if line.text.startswith("Channel ") and " via " in line.text and _quick_transport(reading, line):
        return True
    word = line.text[:24].encode("utf-8", "replace").translate(None, _DIGITS)
    likely = reading.likely.get(word, ())
    for i in likely:
        if _apply(reading, line, *_HANDLERS[i]):
            return True
    if reading.refused.get(word, 0) >= SURELY_REFUSED:
        return False
    for i, (pattern, handler) in enumerate(_HANDLERS):
        if i not in likely and _apply(reading, line, pattern, handler):
            if len(reading.likely) < MAX_WORDS:
                reading.likely[word] = (*likely, i)
            return True
    if len(reading.refused) < MAX_WORDS and not likely:
        reading.refused[word] = reading.refused.get(word, 0) + 1
    return False


def is_inert(text: str) -> bool:
    """Whether nothing is read of a message, behind its `NCCL INFO `, nor of any that is equal but for its digits."""
    return next((handler for pattern, handler in _HANDLERS if pattern.match(text)), _known) is _known


def _quick_transport(reading: _Reading, line: Line) -> bool:
    found = CONNECTION.fullmatch(line.text)
    if found is None:
        return False
    channel, sender, receiver, by = found.groups()
    reading.communicator(line).connection(int(channel), int(sender), int(receiver), by, line.number)
    return True


def _apply(reading: _Reading, line: Line, pattern: re.Pattern[str], handler: Handler) -> bool:
    found = pattern.match(line.text)
    if found is None:
        return False
    handler(reading, line, found)
    return True


def _warn(reading: _Reading, line: Line) -> None:
    # The same warning of every rank differs in addresses and numbers only at its end.
    key = (line.place, line.text[:120])
    known = reading.warnings.get(key)
    if known is not None:
        reading.warnings[key] = Message(known.text, known.where, known.line, known.count + 1)
    elif len(reading.warnings) < 1000:
        reading.warnings[key] = Message(shortened(line.text, 500), f"{line.host} {line.place}".strip(), line.number, 1)


def _ignored(reading: _Reading, line: Line, _found: re.Match[str]) -> None:
    """NCCL says it as information, but somebody meant something that is not in force."""
    _warn(reading, line)


_RANK_LINE = re.compile(r"#\s+Rank\s+\d+ .* device\s+\d+ \[(?P<bus>[0-9a-fA-Fx:.]{1,20})\] (?P<name>.{1,80})")
_TESTS_LINE = re.compile(r"# nccl-tests version .*nccl-headers=(?P<headers>\d{3,6}) nccl-library=(?P<library>\d{3,6})")


def _header(reading: _Reading, _number: int, text: str) -> None:
    if found := _RANK_LINE.search(text):
        if len(reading.gpu_names) < MAX_KEPT:
            reading.gpu_names[f"{len(reading.gpu_names)}"] = found["name"].strip()
    elif found := _TESTS_LINE.search(text):
        reading.header_version, reading.library_version = int(found["headers"]), int(found["library"])


def _version(reading: _Reading, line: Line, found: re.Match[str]) -> None:
    known = reading.versions.get(found[1], Said(line.host, line.number, 0))
    if len(reading.versions) < 100:
        reading.versions[found[1]] = Said(known.text, known.line, known.count + 1)


def _network(reading: _Reading, line: Line, found: re.Match[str]) -> None:
    reading.network = reading.network or Said(found[1], line.number)
    if len(reading.networks) < MAX_KEPT:
        reading.networks.setdefault(line.host, Said(found[1], line.number))


def _net_using(reading: _Reading, line: Line, found: re.Match[str]) -> None:
    for each in re.findall(r"\[\d+\](\S+?:\S+?)(?=\s|$|\[\d+\])", found[2])[:256]:
        reading.net_devices[f"{found[1]} {each}"] = None
    reading.net_devices_line = reading.net_devices_line or line.number


def _hardware(reading: _Reading, line: Line, found: re.Match[str]) -> None:
    reading.hardware.take(line, found)


def _plugin(reading: _Reading, line: Line, _found: re.Match[str]) -> None:
    if len(reading.plugins) < 100:
        reading.plugins.setdefault(line.text, Said(line.text, line.number))


def _tuner(reading: _Reading, line: Line, _found: re.Match[str]) -> None:
    reading.tuner = reading.tuner or Said(line.text, line.number)


def _bootstrap(reading: _Reading, line: Line, found: re.Match[str]) -> None:
    reading.bootstrap = reading.bootstrap or Said(found[1], line.number)


def _gdr(reading: _Reading, line: Line, found: re.Match[str]) -> None:
    state = "too far" if "(distance " in found[0] else "enabled" if "nabled" in found[0] else "disabled"
    known = reading.gdr.get(state, Said(line.text, line.number, 0))
    reading.gdr[state] = Said(known.text, known.line, known.count + 1)


def _set(reading: _Reading, line: Line, found: re.Match[str]) -> None:
    name, value = found["name"], found["value"].rstrip(".") if found["number"] else found["value"]
    if _NAMES.fullmatch(name) and len(reading.variables) < 2000:
        if (name, value) not in reading.variables:
            was = reading.kept.get((line.host, line.pid, line.device, name), "")
            reading.variables[name, value] = Variable(name, shortened(value, 1024), line.number, was)
        if line.host and len(reading.kept) < MAX_KEPT:
            reading.sayers.setdefault(name, {}).setdefault(line.host)
            reading.kept.setdefault((line.host, line.pid, line.device, name), shortened(value, 80))


def _affinity(reading: _Reading, line: Line, _found: re.Match[str]) -> None:
    if len(reading.affinities) < 4096:
        reading.affinities.setdefault(line.text, Said(line.text, line.number))


def _thresholds(reading: _Reading, _line: Line, found: re.Match[str]) -> None:
    reading.thresholds = reading.thresholds or found[1]


def _tuning(reading: _Reading, line: Line, _found: re.Match[str]) -> None:
    if len(reading.tuning) < 200:
        reading.tuning.append(Said(line.text, line.number))


def _choice(reading: _Reading, line: Line, found: re.Match[str]) -> None:
    reading.choices.add(line, found, reading.communicator(line).name)


def _begin(reading: _Reading, line: Line, found: re.Match[str]) -> None:
    rank = int(found["rank"])
    name = found["id"] or _older_name(reading, line, rank, int(found["nranks"]), found["comm"])
    reading.begins(line, name).rank(line, found)


def _older_name(reading: _Reading, line: Line, rank: int, nranks: int, address: str) -> str:
    """Before 2.18 a communicator has no common name: a rank that is already there begins another one."""
    process = (line.host, line.pid, line.device)
    known = reading.devices.get(process)
    if known is not None and reading.named(known).has_address(rank, address):
        return known
    number = 0
    while True:
        name = f"{nranks} ranks" + (f" #{number + 1}" if number else "")
        if name not in reading.communicators or not reading.communicators[name].has_rank(rank):
            return name
        number += 1


def _sized(reading: _Reading, line: Line, found: re.Match[str]) -> None:
    reading.communicator(line).sizes(found)


def _ring(reading: _Reading, line: Line, found: re.Match[str]) -> None:
    reading.communicator(line).ring(line, found)


def _trees(reading: _Reading, line: Line, found: re.Match[str]) -> None:
    reading.communicator(line).tree_line(line, found[1])


def _transport(reading: _Reading, line: Line, found: re.Match[str]) -> None:
    reading.communicator(line).transport(line, found)


def _counts(reading: _Reading, line: Line, found: re.Match[str]) -> None:
    reading.communicator(line).channel_counts(line, found)


def _direct(reading: _Reading, line: Line, found: re.Match[str]) -> None:
    reading.communicator(line).all_direct = found[1] == "1"


def _known(_reading: _Reading, _line: Line, _found: re.Match[str]) -> None:
    """Understood, and of no consequence."""


# No two of them match the same line, so that the order in which they are tried does not matter.
_HANDLERS: tuple[tuple[re.Pattern[str], Handler], ...] = tuple(
    (re.compile(pattern), handler)
    for pattern, handler in (
        (
            r"(?:Channel|Ring) (?P<channel>\d{1,4})(?:/\d{1,2})? : (?P<sender>\d{1,7})(?:\[[0-9a-f]{1,16}\])?"
            r" -> (?P<receiver>\d{1,7})(?:\[[0-9a-f]{1,16}\])? (?:\[(?:send|receive)\] )?via (?P<by>\S.{0,200})",
            _transport,
        ),
        (r"Channel (?P<channel>\d{1,4})/(?P<of>\d{1,4}) : +(?P<ranks>[\d ]+)$", _ring),
        (r"Channel (?P<channel>\d{1,4}) : +(?P<ranks>\d[\d ]+)$", _ring),
        (r"Trees ?(.*)", _trees),
        (
            r"(?P<name>[A-Z][A-Z0-9_]{2,80}) set (?:by (?:environment|NCCL_CONF_FILE|config(?:uration)? file)\S* )?to "
            r"(?P<value>(?P<number>-?\d+\.?$)|.{0,1024})",
            _set,
        ),
        (
            r"(?:\[Rank \d{1,7}\] )?(?:(?P<how>nccl\w+) )?comm (?P<comm>0x[0-9a-f]{1,16}) "
            r"rank (?P<rank>\d{1,7}) nranks (?P<nranks>\d{1,7}) "
            r"cudaDev (?P<cuda>\d{1,4})(?: nvmlDev (?P<nvml>\d{1,4}))?(?: busId (?P<bus>[0-9a-f]{1,16}))?"
            r"(?:(?: parent 0x[0-9a-f]+)?(?: splitCount -?\d+)?(?: color -?\d+)?(?: key -?\d+)?)"
            r"(?: commId (?P<id>0x[0-9a-f]{1,20}))? ?- Init (?P<state>START|COMPLETE)",
            _begin,
        ),
        (r"(?:nccl\w+ )?comm 0x[0-9a-f]+ rank \d+ nranks \d+ .*(?:Destroy|Abort) COMPLETE", _known),
        (
            r"comm 0x[0-9a-f]+ rank \d{1,7} nRanks (?P<nranks>\d{1,7}) nNodes (?P<nnodes>\d{1,6}) "
            r"localRanks (?P<local>\d{1,5}) localRank \d+",
            _sized,
        ),
        (
            r"(?P<coll>\d{1,5}) coll channels(?:, (?P<collnet>\d{1,5}) collnet channels)?"
            r"(?:, (?P<nvls>\d{1,5}) nvls channels)?, (?P<p2p>\d{1,5}) p2p channels"
            r"(?:, (?P<peer>\d{1,5}) p2p channels per peer)?",
            _counts,
        ),
        (r"threadThresholds (.{1,200})", _thresholds),
        (r"(?:cudaDriverVersion \d+|CC O(?:ff|n).*|P2P Chunksize.*|MNNVL (?!\d cliqueId).*|Comm config .*)$", _known),
        (r"Check P2P Type \w+ (\d)", _direct),
        (r"NCCL version (\S{1,60})", _version),
        (r"Using network (\S{1,60})", _network),
        (PATTERN, _hardware),
        (r"NET/(\w{1,40}) ?: Using(?! \d)(.*)", _net_using),
        (r"(?:NET/(?!Socket\b)\w+ ?: |(?=.{36,120}\(distance ))GPU Direct RDMA (?:Dis|dis|En|en)abled.*", _gdr),
        (r"(?:TUNER/Plugin|Using tuner).*", _tuner),
        (
            r"(?:NET/Plugin|Plugin |NET/IB : No|Failed to initialize NET|(?:Initialized|Assigned) NET|ENV/Plugin|"
            r"PROFILER/P).*",
            _plugin,
        ),
        (r"Bootstrap ?: Using ?(.{1,200})", _bootstrap),
        (r"(?:Setting affinity for GPU|ncclTopoGetCpuAffinity: ).*", _affinity),
        (
            r"(?:(?P<what>\w{3,40})(?: \[\w+\])?: )?(?P<bytes>\d{1,19}) Bytes -> Algo (?P<algo>\w{1,30}) "
            r"proto (?P<proto>\w{1,30})"
            r"(?: (?:time \S+|channel\{Lo\.\.Hi\}=\{(?P<low>\d{1,4})\.\.(?P<high>\d{1,4})\}))?",
            _choice,
        ),
        (
            r"(?P<what>\w{3,40}) \[(?P<algo>Symmetric|Copy Engine|Hierarchical CE)\]: (?P<bytes>\d{1,19}) Bytes -> "
            r"(?:Kernel )?(?P<proto>\w{1,60})(?P<low>)",
            _choice,
        ),
        (r"(?:Invalid value .{1,200} for \w+, using default|Could not open XML topology file) ?.*", _ignored),
        (r" *(?:Algorithm|Protocol|Max NThreads|\w+ +\|).*\|", _tuning),
        (r"(?:P2P is disabled|P2P level set by environment to) ?(.*)", _plugin),
        (
            r"(?:Connected|Coll(?:Net)? |(?:Init|Bootstrap) timings|\[Proxy |RAS |Launch mode|Loading|Latency|Pattern|"
            r"Search|Tree \d|Ring \d|NVLS(?!.{19}is not)|Using \d+ threads|GDRCOPY|NET/Socket: |NET/IB: ).*",
            _known,
        ),
    )
)
