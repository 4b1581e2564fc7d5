"""Variables that are set and may slow a run, where a table beside them is slower than its machine should be."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.base.secrets import shortened
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Finding, Severity
from busbw.doctor.findings.figures import below_expected
from busbw.doctor.findings.network import one_rail
from busbw.doctor.meanings.suspect_rows import ROWS
from busbw.doctor.remedy import evidence, removal, without
from busbw.doctor.signature import Stage

NAME = "suspect-setting"
_SUSPECTS = tuple(
    (name.strip(), where.strip(), re.compile(value.strip()), effect.strip())
    for name, where, value, effect in (row.split(" ; ") for row in ROWS.strip().splitlines())
)
_STRONG = frozenset(
    {"NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_IB_CUDA_SUPPORT", "NCCL_IB_HCA", "NCCL_MNNVL_ENABLE", "NCCL_DMABUF_ENABLE"}
)
"""These are told also where a table is no faster than a few ports, which is all that some clouds rent out."""
MOST = 4


def examine(facts: Facts) -> Iterator[Finding]:
    slow = [*below_expected.examine(facts), *one_rail.examine(facts)]
    if not slow:
        return
    loud = any(each.severity is not Severity.NOTE for each in slow)
    many = facts.several_nodes
    told = 0
    for name, where, value, effect in _SUSPECTS:
        text = facts.value(name)
        if text is None or value.fullmatch(text) is None or (where == "many") > many or (where == "one") > (not many):
            continue
        if (loud or name in _STRONG) and told < MOST:
            told += 1
            setting = facts.settings[name]
            yield Finding(
                NAME, Severity.WARNING,
                f"{name}={shortened(text, 80)} is set, and the run is slower than expected: {effect}",
                (evidence(setting),), Cost(effect), removal(setting), without(setting), stage=Stage.FAILURE,
            )  # fmt: skip
