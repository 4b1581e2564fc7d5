"""What became of each fault: found or missed, what it cost, and which findings nobody had injected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

NO_SETTING = "no setting mends it"


@dataclass(frozen=True)
class Outcome:
    """`reason` says why a fault could not be judged, or why its cost is not known."""

    fault: str
    expected: str
    found: bool
    false_alarms: tuple[str, ...] = ()
    proved: bool = False
    said: str = ""
    factor: float | None = None
    now_GBps: float | None = None
    mended_GBps: float | None = None
    seconds: float = 0.0
    reason: str = ""

    @property
    def word(self) -> str:
        if self.reason and not self.found:
            return "not judged"
        if not self.expected:
            return "healthy" if not self.false_alarms else "false alarm"
        return "found" if self.found else "missed"

    @property
    def measurable(self) -> bool:
        """Whether its cost can be measured by a setting."""
        return bool(self.expected) and self.reason != NO_SETTING


def judge(fault: str, expected: str, answer: Mapping[str, Any], also: Sequence[str] = ()) -> Outcome:
    """The outcome of a fault by what `busbw doctor --json` said; `expected` is empty for the healthy machine.

    `also` are findings that are true beside it. It is found where it stands first.
    """
    findings = answer.get("findings", [])
    above = [each["name"] for each in findings if each.get("severity") != "note"]
    alarms = tuple(name for name in dict.fromkeys(above) if name not in {expected, *also})
    proofs = [each for each in answer.get("proofs", []) if each.get("name") == expected]
    best = max(proofs, key=lambda each: each.get("factor") or 0.0, default={})
    return Outcome(
        fault, expected, found=above[:1] == [expected] if expected else not above, false_alarms=alarms,
        proved=best.get("verdict") == "proved", said=best.get("sentence", ""), factor=best.get("factor"),
        now_GBps=best.get("now_busbw_GBps"), mended_GBps=best.get("mended_busbw_GBps"),
    )  # fmt: skip


def line(outcome: Outcome) -> str:
    """One line per fault, printed as soon as it is known."""
    cost = f"{outcome.said}" if outcome.said else outcome.reason
    alarms = f"; false alarms: {', '.join(outcome.false_alarms)}" if outcome.false_alarms else ""
    return f"{outcome.fault:<14} {outcome.word:<11} {outcome.seconds:5.1f} s  {cost}{alarms}"


def summary(outcomes: Sequence[Outcome]) -> str:
    """The closing line."""
    judged = [each for each in outcomes if each.expected and each.word != "not judged"]
    missed = [each.fault for each in judged if not each.found]
    alarms = sum(len(each.false_alarms) for each in outcomes)
    left = [each.fault for each in outcomes if each.word == "not judged"]
    said = f"found {len(judged) - len(missed)} of {len(judged)}, proved {sum(each.proved for each in judged)}"
    said += f"; missed: {', '.join(missed)}" if missed else "; missed none"
    said += f"; {alarms} false alarms"
    return said + (f"; not judged: {', '.join(left)}" if left else "")


def passed(outcomes: Sequence[Outcome]) -> bool:
    """Everything found and proved, nothing more said."""
    return all(each.found and not each.false_alarms and (each.proved or not each.measurable) for each in outcomes)


def as_json(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    return [{**asdict(each), "word": each.word} for each in outcomes]
