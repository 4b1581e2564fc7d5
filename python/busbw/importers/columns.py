"""What the header of a column says: which figure, in which unit, of which placement, library and collective."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

from busbw.importers.names import named, stands_alone
from busbw.importers.values import collective_named
from busbw.records import Collective, Placement

FIGURES = frozenset({"time", "algbw", "busbw"})
MAX_NAME = 120
"""Characters of a header's cell."""

GB = 1 << 30
RATES = {
    "gb/s": 1.0, "gbs": 1.0, "gib/s": GB / 1e9, "mb/s": 1e-3, "mib/s": (1 << 20) / 1e9, "gbit/s": 0.125,
    "mbit/s": 0.125e-3, "tb/s": 1e3, "gb/s?": 1.0,
}  # fmt: skip
"""GB/s that one of the unit is; `gb/s?` is "gbps", which people write for gigabytes and for gigabits."""
TIMES = {"us": 1.0, "ms": 1e3, "s": 1e6, "ns": 1e-3}
SIZES = {"b": (1.0,), "kb": (1024.0, 1e3), "kib": (1024.0,), "mb": (1048576.0, 1e6), "mib": (1048576.0,),
         "gb": (float(GB), 1e9), "gib": (float(GB),)}  # fmt: skip
"""Bytes that one of the unit is; where there are two, the figures decide, and else the first."""

_FIGURE_UNIT = (
    r"[KMGT]i?B/s(?:ec)?|[KMGT]i?Bps|[KMG]b(?:it)?/s|[KMG]bps|gb/s|gbps|gbs|mb/s|mbps|GB_s|GBs|us|µs|μs|usecs?|microseconds?|msecs?|ms"
    r"|milliseconds?|nsecs?|ns|nanoseconds?|secs?|seconds?|s"
)
_UNIT = re.compile(
    rf"(?:[\s_./-]*[(\[](?P<bracket>{_FIGURE_UNIT}|[KMG]?i?B(?:ytes)?|[kmg]?i?b|bytes?)[)\]]"
    rf"|[\s_./,-]+(?:in[\s_])?(?P<behind>{_FIGURE_UNIT}|[KMG]i?B|[kmg]i?b|B|bytes?)|(?<=[a-zWw])(?P<glued>[GM]i?Bps|[GM]bps))\s*$"
)
_PLACED = re.compile(
    r"(?<![a-z])(?:(?P<out>out[\s_-]*of[\s_-]*place|outofplace|outplace|oop|ofp)|(?P<in>in[\s_-]*place|inplace|ip))(?![a-z])"
)
_OP_PREFIX = re.compile(r"op[\s_-]+(?=time|alg|bus|lat|bw)")
_LIBRARY = re.compile(r"(?i)(?:\w[\w+-]*ccl[\w+-]*|gloo|u?mpi|ucc|symm[_-]?mem|nvls|\w{2,4}shmem)(?![a-z])")

_NAMES = {
    "bytes": "size bytes sizeb sizebytes msgsize messagesize msgsizebytes messagesizebytes sizeinbytes nbytes msgbytes "
    "message msg payload payloadbytes payloadsize datasize datasizebytes buffersize buffersizebytes tensorsize "
    "tensorbytes tensor totalbytes totalsize numbytes transfersize",
    "count": "count elements elems countelems countelements elementcount numelements nelems nelements numel",
    "type": "type dtype datatype nccltype",
    "op": "redop op reduction reduceop",
    "root": "root",
    "time": "time latency lat avgtime timeavg avglatency latencyavg meantime timemean meanlatency "
    "latencymean duration durationavg avgduration elapsed elapsedtime avglat latavg",
    "algbw": "algbw algobw algorithmbw algorithmbandwidth algbandwidth algobandwidth avgalgbw algbwavg meanalgbw",
    "busbw": "busbw busbandwidth avgbusbw busbwavg meanbusbw nwbw nwbandwidth",
    "wrong": "wrong nwrong errors numerrors wrongcount",
    "in_place": "inplace placement",
    "collective": "name collective operation coll test primitive kind benchmark commop collectivename collectivetype "
    "testname testtype",
    "ranks": "ranks nranks worldsize world np nprocs numranks processes nprocesses numprocs totalgpus totalranks",
    "gpus": "gpus ngpus numgpus devices ndevices numdevices",
    "nodes": "nodes nnodes numnodes hosts nhosts",
    "per_node": "gpuspernode ngpuspernode numgpuspernode devicespernode procspernode nprocpernode processespernode "
    "ranksperhost ranksofnode taskspernode ppn gpusperhost",
    "bw": "bw bandwidth throughput effectivebandwidth effectivebw effective avgbw bwavg meanbandwidth avgbandwidth",
    "library": "library backend solution",
    "variant": "variant transport mode algo algorithm proto protocol impl implementation method kernel",
    "cycle": "numcycle cycle",
}
_FIELDS = {name: field for field, names in _NAMES.items() for name in names.split()}
_WITH_UNIT = frozenset({"", "avg", "mean", "average", "t", "median", "secperiter", "periter", "avgperiter"})
"""Names that say a time only by their unit."""


class Key(NamedTuple):
    """What the name of a figure's column says beside the figure."""

    library: str | None = None
    collective: Collective | None = None
    placement: Placement | None = None
    ranks: int | None = None
    variant: str | None = None


@dataclass(frozen=True)
class Column:
    """One column of a table of results."""

    field: str
    unit: str = ""
    """As the keys of RATES, TIMES and SIZES; "" where the header names none."""
    placement: Placement | None = None
    library: str | None = None
    collective: Collective | None = None
    ranks: int | None = None
    variant: str | None = None
    """A header that names no figure below a title that names the figure of all columns."""

    @cached_property
    def key(self) -> Key:
        """Whose figure it is, made once for all rows."""
        return Key(self.library, self.collective, self.placement, self.ranks, self.variant)


def plain_unit(text: str) -> str:
    """The unit as our tables name it; a small b is a bit only beside a large G or M."""
    lower = text.lower().replace("\u00b5", "u").replace("\u03bc", "u").replace("_", "/")
    known = _TIME_WORDS.get(lower) or ("b" if lower in ("byte", "bytes") else None)
    if known:
        return known
    rate = lower.removesuffix("ec") if lower.endswith("/sec") else lower
    base = re.sub(r"/?p?s$", "", rate)
    if base == rate or not base:
        return lower
    if "bit" in base or (base in ("gb", "mb") and "b" in text and text[:1].isupper()):
        return f"{base[0]}bit/s"
    return f"{base}/s?" if text.islower() and base in ("gb", "mb") else f"{base}/s"


_TIME_WORDS = {
    word: unit
    for unit, words in {
        "us": "us usec usecs microsecond microseconds",
        "ms": "ms msec msecs millisecond milliseconds",
        "ns": "ns nsec nsecs nanosecond nanoseconds",
        "s": "s sec secs second seconds",
    }.items()
    for word in words.split()
}

_ALONE = {
    **{unit: Column("time", unit) for unit in ("us", "ms", "ns")},
    **{unit: Column("bytes", unit) for unit in ("kb", "kib", "mb", "mib")},
}
"""Names of JSON and CSV that are a unit and nothing else."""
_ENGLISH = {
    "size": "크기 메시지_크기 rozmiar velikost boyut storlek størrelse méret メッセージサイズ メッセージ長 taille "
    "größe groesse tamaño tamanho dimensione grootte размер 大小 数据量 数据大小 消息大小 データサイズ サイズ",
    "time": "시간 czas čas süre idő temps zeit tiempo tempo tijd время 时间 耗时 平均耗时 時間",
    "latency": "지연 지연시간 opóźnienie latens gecikme latence latenz latencia latência latenza латентность "
    "时延 延迟 レイテンシ",
    "bandwidth": "대역폭 przepustowość bant_genişliği bandbredd båndbredde propustnost bande_passante "
    "bandbreite ancho_de_banda largura_de_banda 带宽 帯域幅",
    "algbw": "算法带宽 알고리즘_대역폭 アルゴリズム帯域幅",
    "busbw": "总线带宽 bus-bandbreite 버스_대역폭 バス帯域幅",
}
_FOREIGN = {word.replace("_", " "): english for english, words in _ENGLISH.items() for word in words.split()}
_FOREIGN_NAME = re.compile("|".join(sorted(map(re.escape, _FOREIGN), key=len, reverse=True)))
_OCTETS = re.compile(r"(?<![A-Za-z])([KMGTkmgt]i?)o(?=/s|[)\]\s]|$)")


def in_english(name: str) -> str:
    """A column's name with other languages' words for size, time and bandwidth in English, and octets as bytes."""
    if "o" in name:
        name = _OCTETS.sub(r"\1B", name).replace("octets", "bytes")
    return (
        _FOREIGN_NAME.sub(lambda word: _FOREIGN[word[0]], name.lower()) if _FOREIGN_NAME.search(name.lower()) else name
    )


_WORDS_ALONE = frozenset(_FIELDS) | frozenset(_ALONE) | frozenset(_TIME_WORDS)


def _is_plain_word(cell: str) -> bool:
    """Whether a cell is one English word that stands for no column: most cells of prose and code are."""
    if not (cell.isascii() and cell.isalpha() and (cell.islower() or cell[1:].islower())):
        return False
    word = cell.lower()
    return word not in _WORDS_ALONE and not stands_alone(word) and _FOREIGN_NAME.search(word) is None


@lru_cache(maxsize=4096)
def column_of(header: str) -> Column | None:
    """What a header's cell says; None where it names nothing that is kept."""
    if _is_plain_word(header):
        return None
    if "_" in header and header.isupper():
        header = header.lower()  # BUSBW_GBPS: the figures say whether bytes or bits are meant
    text = in_english(re.sub(r"\.\d$", "", header.strip(" *`#:\u00a0"))[:MAX_NAME])
    found = _UNIT.search(text)
    unit = plain_unit(found["bracket"] or found["behind"] or found["glued"]) if found else ""
    base = text[: found.start()] if found else re.sub(r"\(.*?\)|\[.*?\]", " ", text)
    whole = _named(base, unit)
    if whole is None and found and not found["bracket"]:
        whole = _named(text, "")  # "times", "msg_bytes"
    return whole or _by_words(base, text, unit)


def _by_words(base: str, text: str, unit: str) -> Column | None:
    """What the words of a name say in any order; the last resort."""
    alone = _ALONE.get(text.strip().lower())
    if alone:
        return alone
    said = named(base, unit) or (named(text, "") if unit else None)
    if said is None:
        return None
    column = Column(said.field, said.unit, said.placement, said.library, said.collective, said.ranks)
    return column if _unit_fits(column) else None


def _named(base: str, unit: str) -> Column | None:
    lower, placement = _placement(base.lower())
    plain = re.sub(r"[^a-z]", "", lower)
    column = Column(_FIELDS[plain], unit, placement) if plain in _FIELDS else None
    if column is None and plain in _WITH_UNIT and unit in TIMES and (plain or lower.strip()):
        column = Column("time", unit, placement)
    if column is None and plain in ("secperiter", "usperiter", "msperiter"):
        column = Column("time", {"sec": "s", "ms": "ms", "us": "us"}[plain.removesuffix("periter")], placement)
    if column is None:
        column = _of_whom(base, unit)
    return column if column is not None and _unit_fits(column) else None


def _placement(lower: str) -> tuple[str, Placement | None]:
    found = _PLACED.search(lower.replace("_", " "))
    rest = lower
    if found:
        rest = f"{lower[: found.start()]} {lower[found.end() :]}"
        if not rest.strip(" _-"):
            return lower, None  # a column named in_place says which one the row has
        return rest, "out_of_place" if found["out"] else "in_place"
    if _OP_PREFIX.match(lower):
        return lower[2:], "out_of_place"
    return lower, None


def _of_whom(base: str, unit: str) -> Column | None:
    """A figure of a library or collective that the header names before it: `NCCL busbw`, `all_reduce busbw`."""
    words = base.replace("_", " ").split() if " " in base.strip() else []
    for at in range(1, len(words)):
        inner = column_of_plain(" ".join(words[at:]), unit)
        if inner is None or inner.field not in FIGURES | {"bw"}:
            continue
        whom = " ".join(words[:at])
        collective = collective_named(whom)
        if collective is not None:
            return replace(inner, collective=collective)
        library, _, rest = whom.partition(" ")
        if _LIBRARY.fullmatch(library):
            collective = collective_named(rest) if rest else None
            if not rest or collective:
                return replace(inner, library=library, collective=collective)
    return None


def column_of_plain(name: str, unit: str) -> Column | None:
    """As `column_of`, for a name without its unit and without whose it is."""
    lower, placement = _placement(name.lower())
    plain = re.sub(r"[^a-z]", "", lower)
    return Column(_FIELDS[plain], unit, placement) if plain in _FIELDS else None


def _unit_fits(column: Column) -> bool:
    kinds = {"time": set(TIMES), "algbw": set(RATES), "busbw": set(RATES), "bw": set(RATES), "bytes": set(SIZES)}
    return column.field not in kinds or not column.unit or column.unit in kinds[column.field]


def is_table(columns: Sequence[Column | None]) -> bool:
    """Whether columns are those of results: a size, and a time or bandwidth.

    Elements and their type are a size where time and algorithm bandwidth stand beside them and can bear it out.
    """
    fields = {column.field for column in columns if column}
    return ("bytes" in fields and bool(fields & FIGURES)) or fields >= {"count", "type", "time", "algbw"}


def with_placements(columns: Sequence[Column | None], above: Sequence[str] = ()) -> list[Column | None]:
    """Columns with the placement that a row above them names, or that two columns of each name mean.

    nccl-tests prints out of place first; so do all who export its table.
    """
    placed = list(columns)
    if above and len(above) == len(placed):
        current: Placement | None = None
        for at, text in enumerate(above):
            found = _PLACED.search(text.lower().replace("_", " "))
            current = ("out_of_place" if found["out"] else "in_place") if found else current
            column = placed[at]
            if column is not None and current and column.field in FIGURES | {"wrong"}:
                placed[at] = replace(column, placement=column.placement or current)
    placed = _beside_out_of_place(placed)
    names = [
        (column.field, column.library, column.collective)
        for column in placed
        if column and column.field in FIGURES and not column.placement
    ]
    if names and all(names.count(each) == 2 for each in names):
        seen: set[tuple[object, ...]] = set()
        for at, column in enumerate(placed):
            if column is not None and column.field in FIGURES | {"wrong"}:
                key = (column.field, column.library, column.collective)
                placed[at] = replace(column, placement="in_place" if key in seen else "out_of_place")
                seen.add(key)
    return placed


def _beside_out_of_place(columns: list[Column | None]) -> list[Column | None]:
    """A figure of no placement is in place where the same stands out of place: `algbw_out_gbs` and `algbw_in_gbs`."""
    outside = {replace(column, placement=None) for column in columns if column and column.placement == "out_of_place"}
    inside = {replace(column, placement=None) for column in columns if column and column.placement == "in_place"}
    return [
        replace(column, placement="in_place")
        if column and not column.placement and column in outside and column not in inside and column.field in FIGURES
        else column
        for column in columns
    ]
