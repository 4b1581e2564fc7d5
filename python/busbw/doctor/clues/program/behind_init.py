"""A job that somebody says stands still: what its log shows of where, behind the init of all ranks of one host."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_DIRECT = re.compile(r"NCCL INFO Channel \d{1,3}(?:/\d{1,2})? : \d{1,6}\[\w{1,8}\] -> \d{1,6}\[\w{1,8}\] via P2P/")
_CURE = (
    "run once with NCCL_P2P_DISABLE=1. Where that passes, the IOMMU or ACS break P2P: iommu=pt, ACS off in the BIOS "
    "(lspci -vvv | grep ACSCtl), or another driver. Else NCCL_SHM_DISABLE=1, and py-spy dump --pid PID of each rank: "
    "do all stand in the same collective? Bootstrap, interfaces and plugins did their work"
)


def first_collective(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """All ranks of one host met, their channels go directly from GPU to GPU, and then nothing comes."""
    known = [each for log in facts.logs for each in log.communicators if each.ranks]
    places = [place for each in known for place in each.ranks]
    whole = all(each.nranks == len(each.ranks) for each in known)
    if len(places) < 2 or not whole or not all(each.complete for each in places):
        return None
    direct = next(((text, found) for text in texts if (found := _DIRECT.search(text.text))), None)
    if len({each.host for each in places}) != 1 or direct is None:
        return None
    ended = next((text.evidence(at) for text in texts if (at := text.text.rfind("Init COMPLETE")) >= 0), None)
    return Sharper(
        f"the job stands still behind NCCL's init: all {len(known[0].ranks)} ranks met (Init COMPLETE), and the "
        "first collective does not end. Their channels go from GPU to GPU (P2P), which is the first suspect",
        _CURE,
        (direct[0].evidence(direct[1].start()), *([ended] if ended else [])),
    )
