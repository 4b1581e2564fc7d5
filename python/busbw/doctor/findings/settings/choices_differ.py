"""Ranks of one communicator that chose different algorithms or protocols for one size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from busbw.analysis.units import format_bytes
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage

NAME = "choices-differ"
_ALGORITHMS = ("tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat")
_PROTOCOLS = ("ll", "ll128", "simple")
Said = dict[str, dict[tuple[str, str], Evidence]]
"""By process, what it chose and where it said so."""


def examine(facts: Facts) -> Iterator[Finding]:
    said: dict[tuple[str, str, int], Said] = defaultdict(lambda: defaultdict(dict))
    for log in facts.logs:
        for (who, communicator), choices in log.choices_of.items():
            for each in choices:
                key = communicator, each.collective, each.bytes
                where = Evidence(
                    f"{clean(who)}: {format_bytes(each.bytes)} by {_choice(each.algorithm, each.protocol)}",
                    log.source, each.line,
                )  # fmt: skip
                said[key][who].setdefault((each.algorithm, each.protocol), where)
    for (_, collective, size), processes in sorted(said.items(), key=lambda pair: pair[0][2]):
        # A process that chose twice was asked for something else each time, such as buffers that are registered.
        firm = {who: next(iter(found.items())) for who, found in processes.items() if len(found) == 1}
        if len({choice for choice, _ in firm.values()}) > 1:
            yield _finding(collective, size, firm)
            return


def _finding(collective: str, size: int, firm: Mapping[str, tuple[tuple[str, str], Evidence]]) -> Finding:
    shown: dict[tuple[str, str], tuple[str, Evidence]] = {}
    for who, (choice, where) in firm.items():
        shown.setdefault(choice, (who, where))
    parts = [f"{_choice(*choice)} on {clean(who)}" for choice, (who, _) in list(shown.items())[:3]]
    what = "" if collective == "?" else f" of {collective}"
    return Finding(
        NAME, Severity.ERROR,
        f"ranks chose different ways for {format_bytes(size)}{what}: {'; '.join(parts)}",
        tuple(where for _, where in list(shown.values())[:4]),
        Cost("the collective stands still or gives wrong sums: its ranks wait for other messages than are sent"),
        "the same NCCL, tuner plugin, NCCL variables and topology file on all hosts; where processors or GPUs of hosts "
        "differ, update NCCL. Until then set NCCL_ALGO=Ring and NCCL_PROTO=Simple on all ranks (or NCCL_NET_OVERHEAD "
        "to one value)",
        Proof(instruction="run with NCCL_DEBUG_SUBSYS=TUNING on all ranks and compare the lines `Bytes -> Algo`"),
        stage=Stage.SETTING,
    )  # fmt: skip


def _choice(algorithm: str, protocol: str) -> str:
    """In words: older versions write numbers."""
    return f"{_named(algorithm, _ALGORITHMS)}/{_named(protocol, _PROTOCOLS)}"


def _named(word: str, names: tuple[str, ...]) -> str:
    return names[int(word)] if word.isdecimal() and len(word) < 2 and int(word) < len(names) else clean(word)
