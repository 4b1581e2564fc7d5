"""Bundles of several machines side by side: what differs, most suspicious first, and which one stands alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw.base.text import WIDTH, clean, sentences
from busbw.doctor.examine import examine
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.traits import DETAIL, FAULT, Trait, traits

MISSING = "not seen"
MOST = 40
BARE = 0.1
"""Of the values of the machine with most: a bundle that has fewer holds next to nothing of its host, a choice."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One trait or finding that the machines do not share; `values` by the name of the bundle.

    `alone` are the machines outside of the majority: with two machines nobody is.
    """

    name: str
    part: str
    values: Mapping[str, str]
    weight: int
    alone: tuple[str, ...] = ()
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences, most suspicious first; `outlier` is the machine that stands alone in the most of weight."""

    names: tuple[str, ...]
    differences: tuple[Difference, ...]
    outlier: str | None
    shared: int
    bare: Mapping[str, int] = field(default_factory=dict)
    """Machines of which their bundle holds no facts of the host, and how many values of the others that leaves out."""


def compare(machines: Mapping[str, Facts]) -> Comparison:
    """Lay the machines side by side."""
    all_traits = {name: traits(facts) for name, facts in machines.items()}
    keys = list(dict.fromkeys(key for found in all_traits.values() for key in found))
    bare = _bare(all_traits, len(keys))
    rows = [
        row for key in keys
        if (row := _row(key, {name: has for name, has in all_traits.items() if name not in bare or key in has}))
    ]  # fmt: skip
    rows = [replace(row, values={name: row.values.get(name, MISSING) for name in machines}) for row in rows]
    rows += _findings({name: examine(facts) for name, facts in machines.items()})
    rows.sort(key=lambda each: (-each.weight, each.name))
    shared = len([key for key in keys if all(key in has for has in all_traits.values())]) if bare else len(keys)
    shared -= len([row for row in rows if not bare or all(row.name in has for has in all_traits.values())])
    return Comparison(tuple(machines), tuple(rows), _outlier(rows, len(machines)), max(shared, 0), bare)


def _bare(found: Mapping[str, Mapping[str, Trait]], count: int) -> dict[str, int]:
    """Machines without facts of their hosts beside such as have them, and what each of them lacks."""
    whole = max(len(has) for has in found.values())
    return {name: count - len(has) for name, has in found.items() if len(has) < BARE * whole}


def _row(key: str, found: Mapping[str, Mapping[str, Trait]]) -> Difference | None:
    """The trait where it differs. One that a single machine knows of is small print: it may not have been readable."""
    there = [each[key] for each in found.values() if key in each]
    values = {name: each[key].value if key in each else MISSING for name, each in found.items()}
    if len(set(values.values())) == 1:
        return None
    weight = max(each.weight for each in there)
    absent = len(there) < len(found) and len({each.value for each in there}) == 1
    readable = there[0].part in {"setting", "library"} or there[0].part.startswith(("GPU", "mlx", "ib"))
    if absent and not readable:
        # Bundles that both hold facts of the host were made alike: what one lacks, its kernel lacks.
        weight = max(DETAIL, weight // 2) if all("kernel" in each for each in found.values()) else DETAIL
    return Difference(key, there[0].part, values, weight, _alone(values))


def _findings(found: Mapping[str, Sequence[Finding]]) -> list[Difference]:
    """What the doctor finds above a note on some machines and not on others."""
    loud: dict[str, dict[str, Finding]] = defaultdict(dict)
    for name, findings in found.items():
        for each in findings:
            if each.severity is not Severity.NOTE:
                loud[each.name].setdefault(name, each)
    rows = []
    for finding, where in loud.items():
        if len(where) < len(found):
            values = {name: where[name].title if name in where else "nothing found" for name in found}
            first = next(iter(where.values()))
            worse = FAULT + 20 if first.severity is Severity.ERROR else FAULT + 10
            alone = _alone({name: str(name in where) for name in found})
            rows.append(Difference(f"finding {finding}", "doctor", values, worse, alone, first.fix))
    return rows


def _alone(values: Mapping[str, str]) -> tuple[str, ...]:
    """Who differs from the value that more than half of at least three machines share."""
    common, count = Counter(values.values()).most_common(1)[0]
    if len(values) < 3 or count * 2 <= len(values):
        return ()
    return tuple(name for name, value in values.items() if value != common)


def _outlier(rows: Sequence[Difference], count: int) -> str | None:
    """The machine with the most weight of its own; None for two machines or where none stands out."""
    if count < 3:
        return None
    weights: Counter[str] = Counter()
    for row in rows:
        if len(row.alone) == 1 and row.weight > DETAIL:
            weights[row.alone[0]] += row.weight
    ranked = weights.most_common(2)
    if not ranked or (len(ranked) > 1 and ranked[0][1] < 2 * ranked[1][1]):
        return None
    return ranked[0][0]


def lines(found: Comparison, width: int = WIDTH) -> list[str]:
    """The comparison as text."""
    bare = [f"{clean(name)} holds no facts of its host: {count} values of the others were not compared with it"
            for name, count in found.bare.items()]  # fmt: skip
    if not found.differences:
        same = f"{len(found.names)} machines, and nothing differs in {found.shared} values"
        same = same if found.shared or not bare else f"{len(found.names)} machines, and nothing can be compared"
        return sentences([same, *bare], bullet="", width=width)
    count = len(found.differences)
    said = [f"{count} difference{'s' * (count > 1)} between {len(found.names)} machines, most suspicious first; "
            f"{found.shared} values are the same"]  # fmt: skip
    if found.outlier:
        said.append(f"{clean(found.outlier)} stands alone")
    said += bare
    shown = sentences(said, bullet="", width=width)
    for row in found.differences[:MOST]:
        shown += ["", *sentences([clean(row.name)], bullet="", width=width)]
        shown += _values(row, width)
        if row.fix:
            shown += sentences([f"fix: {row.fix}"], indent="  ", bullet="", width=width)
    if count > MOST:
        shown += ["", f"{count - MOST} more: --json prints all"]
    return shown


def _values(row: Difference, width: int) -> list[str]:
    """Each value with who has it; of a majority only how many."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, value in row.values.items():
        groups[value].append(name)
    shown = []
    for value, names in sorted(groups.items(), key=lambda each: len(each[1])):
        who = ", ".join(names) if len(names) <= 2 else f"{len(names)} others"
        shown += sentences([f"{clean(who)}: {clean(value)}"], indent="  ", bullet="", width=width)
    return shown


def as_json(found: Comparison) -> dict[str, object]:
    """The comparison as a value for JSON."""
    rows = [
        {"name": row.name, "part": row.part, "weight": row.weight, "values": dict(row.values),
         "alone": list(row.alone), "fix": row.fix}
        for row in found.differences
    ]  # fmt: skip
    return {"machines": list(found.names), "outlier": found.outlier, "same": found.shared, "bare": dict(found.bare),
            "differences": rows}  # fmt: skip
