"""Stages of a pipeline that count their micro batches apart, as the batch is no multiple of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_TRANSFER = re.compile(r"\bwaits? in (?:RECV|SEND)\b")
_SIZES = re.compile(
    r"(?<![\w-])(?:--)?(?:global[ _-]?)?batch(?:[ _-]?size)?[ =:]{1,3}(?P<batch>\d{1,7})\b[^\n]{0,60}?"
    r"(?<![\w-])(?:--)?(?:num[ _-]?)?micro(?:[ _-]?batch(?:es)?)?(?:[ _-]?size)?[ =:]{1,3}(?P<micro>\d{1,6})\b",
    re.IGNORECASE,
)


def uneven_micro_batches(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Ranks wait in RECV with nobody who sends, and the batch cannot be shared out into micro batches."""
    waits = _TRANSFER.search(finding.title)
    if waits is None:
        return None
    for text in texts:
        found = _SIZES.search(text.text)
        if found is None or int(found["micro"]) < 2 or int(found["batch"]) % int(found["micro"]) == 0:
            continue
        batch, micro = int(found["batch"]), int(found["micro"])
        rest = f"{batch // micro} whole ones and {batch % micro} samples are left"
        return Sharper(
            f"sends and receives of the pipeline's stages do not pair up: a batch of {batch} is no multiple of "
            f"{micro}, {rest}. One stage counts this part and another does not, so that it waits for what nobody sends",
            "take a batch that is a multiple of the micro batch, or drop the rest (drop_last). Let all stages work out "
            "the number of micro batches in one place (floor or ceil, not both), and send shapes where they differ. "
            "The order of sends and receives, and the network, are not the cause",
            (text.evidence(found.start()),),
        )
    return None
