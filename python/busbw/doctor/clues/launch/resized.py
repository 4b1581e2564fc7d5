"""Clues of an elastic job that started again with fewer nodes, whose sizes of batches do not fit the ranks left."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text

_NODES = re.compile(r"\bgroup_world_size ?= ?(?P<nodes>\d{1,5})\b")
_RANKS = re.compile(r"\bglobal_world_sizes ?= ?\[(?P<ranks>\d{1,6})\b|\busing world size: (?P<world>\d{1,6})\b")
_ASSERTS = re.compile(
    r"global batch size \((?P<all>\d{1,9})\) is not divisible by micro batch size \((?P<micro>\d{1,7})\) times data "
    r"parallel size \((?P<parts>\d{1,7})\)"
    r"|train_batch_size\b.{0,140} (?P<all2>\d{1,9}) != (?P<micro2>\d{1,9}) \* \d{1,9} \* (?P<parts2>\d{1,9})"
)


def _smaller(texts: Sequence[Text]) -> tuple[str, tuple[Evidence, ...]] | None:
    """How many nodes are left, and which batch does not fit them."""
    for text in texts:
        nodes = list(_NODES.finditer(text.text))
        if len(nodes) < 2 or int(nodes[-1]["nodes"]) >= int(nodes[0]["nodes"]):
            continue
        fails = _ASSERTS.search(text.text, nodes[0].end())
        if fails is None:
            continue
        ranks = list(_RANKS.finditer(text.text, nodes[-1].start()))
        of = f" ({ranks[0]['ranks'] or ranks[0]['world']} ranks)" if ranks else ""
        batch, micro, parts = (fails[name] or fails[f"{name}2"] for name in ("all", "micro", "parts"))
        return (
            f"torchrun started again with {nodes[-1]['nodes']} of {nodes[0]['nodes']} nodes{of}, and a global batch of "
            f"{batch} cannot be split into micro batches of {micro} on {parts} ranks: each restart fails",
            (text.evidence(nodes[-1].start()), text.evidence(fails.start())),
        )
    return None


_CURE = (
    "bring the node back, or put another in its place: a start with fewer only fails. Let torchrun wait for all "
    "of them (--nnodes=N in place of MIN:MAX). Or choose a global batch that micro batch times ranks divides "
    "at each number of nodes that is allowed (Megatron: --decrease-batch-size-if-needed)"
)


def no_fit(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The sizes that do not fit, with the restart that made them so."""
    told = _smaller(texts)
    return None if told is None else Sharper(told[0], _CURE, told[1])


def no_start_without(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The node that went, and what fails without it."""
    told = _smaller(texts)
    return None if told is None else Sharper(f"{finding.title}; {told[0]}", _CURE, told[1])
