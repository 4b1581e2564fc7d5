"""What stands beside an error in a log decides between its readings: commands' output, what people tried, scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.clues.bystanders import without_bystanders
from busbw.doctor.clues.conf_files import with_file
from busbw.doctor.clues.excluded import without_excluded
from busbw.doctor.clues.finders import FINDERS
from busbw.doctor.clues.refuted import without_refuted
from busbw.doctor.clues.releases.other_driver import with_other_driver
from busbw.doctor.clues.releases.other_release import with_other_release
from busbw.doctor.clues.releases.passes_with import without_light
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.clues.whose_host import with_hosts
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Severity
from busbw.doctor.meanings.around_rows import AROUND_ROWS
from busbw.doctor.meanings.beside_rows import BESIDE_ROWS
from busbw.doctor.meanings.clue_rows import CLUE_ROWS
from busbw.doctor.meanings.cluster_clue_rows import CLUSTER_CLUE_ROWS
from busbw.doctor.meanings.kernel_rows import KERNEL_ROWS
from busbw.doctor.meanings.listed_rows import LISTED_ROWS
from busbw.doctor.meanings.node_rows import NODE_ROWS
from busbw.doctor.meanings.serving_rows import SERVING_CLUES
from busbw.doctor.meanings.start_rows import START_ROWS
from busbw.doctor.meanings.torch_rows import TORCH_CLUES
from busbw.doctor.meanings.training_rows import TRAINING_CLUES
from busbw.doctor.shown_texts import Text, texts_of


@dataclass(frozen=True, slots=True)
class Clue:
    """`words` of which each must stand in some log or in the evidence, `never` such as must not; title and cure.

    {names} in title and cure stand for groups of the words, {title} and {fix} for those of the finding as it was.
    """

    words: tuple[re.Pattern[str], ...]
    never: tuple[re.Pattern[str], ...]
    title: str
    cure: str


def _rows(text: str) -> Iterator[Clue]:
    """Rows of `words [&& words ...] ; title ; cure`; words behind a `!` must not be there. Indented lines go on."""
    for row in re.split(r"\n(?=\S)", text.strip()):
        words, title, cure = re.split(r"\s+;\s+", " ".join(row.split()), maxsplit=2)
        parts = re.split(r"\s+&&\s+", words)
        yield Clue(
            tuple(re.compile(each, re.MULTILINE) for each in parts if not each.startswith("!")),
            tuple(re.compile(each[1:], re.MULTILINE) for each in parts if each.startswith("!")),
            title,
            cure,
        )


_TABLES = (
    KERNEL_ROWS,
    TORCH_CLUES,
    SERVING_CLUES,
    AROUND_ROWS,
    BESIDE_ROWS,
    LISTED_ROWS,
    CLUE_ROWS,
    NODE_ROWS,
    START_ROWS,
    TRAINING_CLUES,
    CLUSTER_CLUE_ROWS,
)
"""In the order in which their rows are tried."""


def _all() -> dict[str, tuple[Clue, ...]]:
    found: dict[str, tuple[Clue, ...]] = {}
    for table in _TABLES:
        for names, text in table.items():
            rows = tuple(_rows(text))
            for name in names.split():
                found[name] = (*found.get(name, ()), *rows)
    return found


CLUES = _all()


def with_clues(findings: Sequence[Finding], facts: Facts) -> list[Finding]:
    """The findings; those that what stands beside them decides, by that."""
    texts = texts_of(facts)
    told = [
        with_other_driver(
            with_other_release(with_file(without_excluded(_told(each, facts, texts), texts), texts), texts), texts
        )
        if each.severity is not Severity.NOTE
        else each
        for each in findings
    ]
    told = without_refuted(_by_acs(_by_tests(without_light(told, facts, texts))), texts)
    return with_hosts(without_bystanders(told), texts)


def _told(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Finding:
    # What the evidence itself says is a clue, too, though it may stand far down in a log.
    evidence = Text("", "\n".join(seen.fact for seen in finding.evidence))
    for find in FINDERS.get(finding.name, ()):
        if (sharper := find(finding, facts, texts)) is None:
            continue
        if sharper.title != finding.title:
            return _with(finding, sharper)
        finding = _with(finding, sharper)  # it says how grave it is, and rows say what it is
    for each in CLUES.get(finding.name, ()):
        if (sharper := _fits(each, finding, (evidence, *texts))) is not None:
            return _with(finding, sharper)
    return finding


def _with(finding: Finding, sharper: Sharper) -> Finding:
    known = {(seen.where, seen.line) for seen in finding.evidence}
    more = tuple(each for each in sharper.evidence if each.where and (each.where, each.line) not in known)
    told = replace(finding, title=sharper.title, fix=sharper.fix, evidence=(*finding.evidence, *more))
    return replace(told, severity=Severity.ERROR, cost=Cost("the job fails")) if sharper.fails else told


def _fits(clue: Clue, finding: Finding, texts: Sequence[Text]) -> Sharper | None:
    """What the clue makes of the finding; None where some of its words are not there."""
    groups: dict[str, str] = {"title": finding.title, "fix": finding.fix}
    seen: list[Evidence] = []
    for words in clue.words:
        groups |= dict.fromkeys(words.groupindex, "")
        found = next(((text, match) for text in texts if (match := words.search(text.text))), None)
        if found is None:
            return None
        text, match = found
        groups |= {name: clean(shortened(each, 80)) for name, each in match.groupdict().items() if each}
        seen.append(text.evidence(match.start()))
    if any(words.search(text.text) for words in clue.never for text in texts):
        return None
    return Sharper(clue.title.format_map(groups), clue.cure.format_map(groups), tuple(seen))


_ACS_TESTED = "ACS is on at PCIe switches"


def _by_tests(findings: list[Finding]) -> list[Finding]:
    """Where tests show what ACS costs, the lines of bridges that tell of it say no more."""
    cause = next((each for each in findings if each.title.startswith(_ACS_TESTED)), None)
    if cause is None:
        return findings
    return [
        replace(each, severity=Severity.NOTE, title=f"follows from {cause.name}: {each.title}")
        if each.name == "iommu-fault"
        and each.severity is not Severity.NOTE
        and all("ACSCtl" in seen.fact for seen in each.evidence if seen.line)
        else each
        for each in findings
    ]


P2P_HANGS = "transfers from GPU to GPU (P2P) hang"
"""How the title begins of what passes without such transfers."""


def _by_acs(findings: list[Finding]) -> list[Finding]:
    """Where transfers between GPUs hang, and bridges redirect them, the bridges are the cause."""
    hangs = [each for each in findings if each.title.startswith(P2P_HANGS)]
    if not hangs or not any(each.name == "acs" and each.severity is Severity.WARNING for each in findings):
        return findings
    return [
        replace(
            each,
            severity=Severity.ERROR,
            title=f"{each.title}, and transfers from GPU to GPU hang by it",
            cost=Cost("what GPUs send each other over PCIe does not arrive: the first collective hangs"),
            fix=f"{each.fix}. Else iommu=pt or the IOMMU off. Until then NCCL_P2P_DISABLE=1",
            evidence=(*each.evidence, *hangs[0].evidence[-1:]),
        )
        if each.name == "acs"
        else replace(each, severity=Severity.NOTE, title=f"follows from acs: {each.title}")
        if each in hangs
        else each
        for each in findings
    ]
