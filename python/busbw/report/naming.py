"""Names for columns by what differs between them, a title from what they share, and footnotes from the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from busbw.analysis.differences import ABSENT, Difference, find_differences
from busbw.base.errors import UsageError
from busbw.base.text import clean, shorten
from busbw.report.curves import Curve, ordinal

AXES = ("library", "version", "collective", "algorithm", "type", "root", "nodes", "ranks", "cluster", "setting",
        "processes", "tool", "tag", "heading", "date", "run")  # fmt: skip
"""What may stand across, beside any variable or option by name; in the order in which they tell columns apart."""
_ALIASES = {"machine": "cluster", "shape": "nodes", "variant": "algorithm", "libraries": "library", "node": "nodes"}
_JOINED = frozenset(("library", "version", "collective", "algorithm"))
_TITLE = ("collective", "type", "root", "library", "version", "algorithm", "nodes", "cluster", "date")
# Where messages go and what is searched for files says nothing about speed: named only where nothing else differs.
_LAST = re.compile(r"NCCL_DEBUG.*|.*PATH|CUDA_VISIBLE_DEVICES|HOSTNAME|PWD|SLURM_.*|OMPI_.*|PMIX?_.*")
# Which sizes were measured is seen in the table; it is no setting of what was measured.
_SIZES = frozenset(("minbytes", "maxbytes", "stepbytes", "stepfactor"))
_LONGEST = 60


def parse_axes(words: str | None, curves: Sequence[Curve]) -> tuple[str, ...]:
    """The axes that `--columns` names; UsageError for a word that is none."""
    if words is None:
        return ()
    found = []
    for word in (part.strip() for part in words.split(",")):
        name = _ALIASES.get(word.lower(), word.lower())
        if name in AXES:
            found.append(name)
        elif any(word in curve.settings for curve in curves):
            found.append(f"={word}")
        else:
            raise UsageError(
                f"--columns {word!r} is no axis, and no variable or option that a run has; "
                f"the axes are {', '.join(AXES)}"
            )
    return tuple(found)


def name_columns(curves: Sequence[Curve], axes: Sequence[str] = (), *, named: bool = False) -> list[str]:
    """A name for each column: its values on the axes, and then whatever tells columns of one name apart.

    `named`: the user said what to call the runs.
    """
    chosen: list[dict[str, str]] = [{} for _ in curves]
    first = [*axes] or (["run"] if named else [])
    everyone = list(range(len(curves)))
    for axis in first:
        for i, value in zip(everyone, _values(curves, everyone, axis), strict=True):
            chosen[i][axis] = value
    tried = set(first) - {"setting"}
    for axis in (axis for axis in _ways(named=named) if axis not in tried):
        # Several variables may be needed, each where those before it leave columns of one name.
        for round_ in range(4 if axis == "setting" else 1):
            found = [(group, _values(curves, group, axis)) for group in _same(chosen)]
            split = [(group, values) for group, values in found if len(set(values)) > 1]
            if split and axis in _JOINED:
                # What names one column in so many words names them all: `MSCCL LL` beside `NCCL AllToAll` would ask.
                split = [(everyone, _values(curves, everyone, axis))]
            for group, values in split:
                for i, value in zip(group, values, strict=True):
                    chosen[i][f"{axis}{round_ or ''}"] = value
    names = [
        _text(values) or curve.facts.get("library") or curve.facts["run"]
        for values, curve in zip(chosen, curves, strict=True)
    ]
    return _unique(names)


def _ways(*, named: bool) -> tuple[str, ...]:
    return ("run", *(axis for axis in AXES if axis != "run")) if named else AXES


def _same(chosen: Sequence[dict[str, str]]) -> list[list[int]]:
    """Columns that have one name so far."""
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for i, values in enumerate(chosen):
        groups.setdefault(tuple(sorted(values.items())), []).append(i)
    return [group for group in groups.values() if len(group) > 1]


def _values(curves: Sequence[Curve], group: Sequence[int], axis: str) -> list[str]:
    members = [curves[i] for i in group]
    if axis == "setting":
        names = _telling(members)
        return _setting(members, names[0]) if names else [""] * len(members)
    if axis.startswith("="):
        return _setting(members, axis[1:])
    return [curve.facts.get(axis, "") for curve in members]


def _telling(members: Sequence[Curve]) -> list[str]:
    """Variables and options that differ between the columns, those first that may matter to speed."""
    names = sorted({name for curve in members for name in curve.settings if name not in _SIZES})
    differing = [name for name in names if len({curve.settings.get(name) for curve in members}) > 1]
    return sorted(differing, key=lambda name: (bool(_LAST.fullmatch(name)), not name.startswith("NCCL_"), name))


def _setting(members: Sequence[Curve], name: str) -> list[str]:
    values = [curve.settings.get(name) for curve in members]
    present = {value for value in values if value is not None}
    if len(present) == 1 and None in values:
        value = _short(present.pop())
        said = name if "/" in value or name.endswith("_FILE") else f"{name}={value}"
        return [f"with {said}" if each is not None else f"without {name}" for each in values]
    return [f"{name}={_short(value)}" if value is not None else f"{name} unset" for value in values]


def _short(value: str) -> str:
    return value if len(value) <= 24 else PurePath(value).name[-24:] if value.startswith("/") else shorten(value, 24)


def _text(values: dict[str, str]) -> str:
    """`MSCCL++ AllGather K0`, `2 nodes of 1 GPU, with NCCL_GRAPH_FILE`: words of one kind need no comma."""
    order = {axis: i for i, axis in enumerate(AXES)}
    found = sorted(values.items(), key=lambda item: order.get(item[0].rstrip("123"), len(order)))
    joined = " ".join(value for axis, value in found if axis in _JOINED and value)
    rest = [value for axis, value in found if axis not in _JOINED and value]
    return ", ".join(part for part in (joined, *rest) if part)


def _unique(names: Sequence[str]) -> list[str]:
    """Columns in which nothing recorded differs, not even their names: by their order."""
    counts: dict[str, int] = {}
    found = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        found.append(f"{name}, {ordinal(counts[name])}" if names.count(name) > 1 else name)
    return found


def in_common(curves: Sequence[Curve], leave_out: Iterable[str] = ()) -> dict[str, str]:
    """The facts that all columns share, in the order in which a title says them."""
    left = set(leave_out)
    shared = {}
    for axis in _TITLE:
        values = {curve.facts.get(axis) for curve in curves}
        if len(values) == 1 and axis not in left and (value := values.pop()):
            shared[axis] = value
    return shared


def title_of(curves: Sequence[Curve], leave_out: Iterable[str] = ()) -> str:
    """`AllReduce float sum, NCCL 2.17.1, 1 node of 8 GPUs, Standard_ND96asr_v4`."""
    shared = in_common(curves, leave_out)
    work = " ".join(shared.pop(axis, "") for axis in ("collective", "type", "root"))
    library = " ".join(shared.pop(axis, "") for axis in ("library", "version", "algorithm"))
    parts = [" ".join(part.split()) for part in (work, library, *shared.values())]
    return ", ".join(part for part in parts if part)


def footnotes(curves: Sequence[Curve], names: Sequence[str]) -> Iterator[str]:
    """What differs between the runs besides their times: a sentence for all that differs between the same runs."""
    own: dict[int, list[int]] = {}
    for i, curve in enumerate(curves):
        own.setdefault(id(curve.records[0]), []).append(i)
    if len(own) < 2:
        return
    called = _runs_called(curves, names, list(own.values()))
    found = find_differences([curves[members[0]].records[0] for members in own.values()])
    # A heading in words is what other facts were read from; it is told where they tell nothing.
    together: dict[tuple[int, ...], list[Difference]] = {}
    for each in [each for each in found if each.what != "heading"] or found:
        together.setdefault(tuple(each.values.index(value) for value in each.values), []).append(each)
    for parted, members in together.items():
        sides = []
        for first in dict.fromkeys(parted):
            having = _listed([name for name, part in zip(called, parted, strict=True) if part == first])
            sides.append(f"{having}: {', '.join(_said(each, first) for each in members)}")
        yield clean("; ".join(sides))


def _runs_called(curves: Sequence[Curve], names: Sequence[str], own: Sequence[Sequence[int]]) -> list[str]:
    """A run by the name of its column, or, where it has several columns, by what tells it from the other runs."""
    if all(len(members) == 1 for members in own):
        return [names[members[0]] for members in own]
    return name_columns([curves[members[0]] for members in own])


def _said(difference: Difference, number: int) -> str:
    value = difference.values[number]
    if value == ABSENT:
        return f"{difference.what} not known" if difference.what.islower() else f"no {difference.what}"
    joint = "=" if difference.what.isupper() or difference.what.startswith("option ") else " "
    return f"{difference.what}{joint}{shorten(value, _LONGEST)}"


def _listed(names: Sequence[str], most: int = 4) -> str:
    # A comma within a name would make two of it.
    shown = [f"'{name}'" if "," in name else name for name in dict.fromkeys(names)]
    return (
        ", ".join(shown) if len(shown) <= most else f"{', '.join(shown[: most - 1])} and {len(shown) - most + 1} more"
    )
