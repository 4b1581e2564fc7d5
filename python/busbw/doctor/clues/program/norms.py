"""A clue of a check that compares gradient norms of ranks: where they are NaN, no rank equals another, nor itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_NORMS = re.compile(
    r"^[^\n]{0,60}grad(?:ient)?[_ ]norms? across the (?:workers|ranks)[^\n]{0,20}\n"
    r"(?P<rows>(?:[^\n]{0,60}\brank {1,6}\d{1,6} = \S{1,30}\s*\n?){2,4096})",
    re.MULTILINE | re.IGNORECASE,
)
"""As fairseq lists them."""
_ROW = re.compile(r"\brank {1,6}(?P<rank>\d{1,6}) = (?P<norm>\S{1,30})", re.IGNORECASE)
_NO_NUMBER = re.compile(r"[-+]?(?:nan|inf)\b", re.IGNORECASE)
_SHOWN = 8


def norms_are_nan(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The norms are no numbers, on all ranks or on some."""
    if "inconsistent between workers" not in finding.title:
        return None
    for text in texts:
        if (norms := _NORMS.search(text.text)) is None:
            continue
        rows = {each["rank"]: each["norm"] for each in _ROW.finditer(norms["rows"])}
        bad = [rank for rank, norm in rows.items() if _NO_NUMBER.match(norm)]
        if not bad:
            return None
        if len(bad) == len(rows):
            return Sharper(
                f"the training has diverged: the gradients' norm is NaN or infinite on all {len(rows)} ranks. Ranks do "
                "not differ, as the message says: it compares the norms, and NaN equals nothing",
                "look at loss and gradients before that step: a lower learning rate or a longer warm-up, clipped "
                "gradients, bf16 or fp32 in place of fp16, or a smaller loss scale. Look for samples that are empty or "
                "have bad values, and for a division by 0. Go on from a checkpoint before. --ddp-backend, GPUs and "
                "NCCL have no part in it",
                (text.evidence(norms.start("rows")),),
            )
        who = ", ".join(bad[:_SHOWN]) + (" ..." if len(bad) > _SHOWN else "")
        return Sharper(
            f"the gradients' norm is NaN or infinite on rank {who} alone, and a number on the others",
            f"look at the batch of rank {who} in that step: empty, padded alone, or with bad values, and a division by "
            "0. Where it comes again on that rank with any data, test its GPU (dcgmi diag -r 3). The sums of a step "
            "must be the same on all ranks: look whether its gradients were reduced at all",
            (text.evidence(norms.start("rows")),),
        )
    return None
