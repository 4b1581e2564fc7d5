"""A clue of a libfabric plugin that does not start though the devices are there: its releases do not fit together."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_FAILED = re.compile(r"NET/OFI (?:Failed to initialize \w{2,12} protocol|aws-ofi-nccl initialization failed)")
_USES = re.compile(r"NET/OFI Using Libfabric version (?P<version>\d[\w.]{0,20})")
_THERE = re.compile(
    r"^\s{0,4}provider: efa\b|\bfi_info\b[^\n]{0,60}\b(?:lists|shows|finds|reports|prints)\b"
    r"(?![^\n]{0,20}\b(?:no|none|nothing)\b)[^\n]{0,40}\b(?:devices|NICs|providers?|efa|all)\b"
    r"|NET/OFI Selected [Pp]rovider is efa",
    re.MULTILINE,
)
_GOOD_ROW = re.compile(
    r"^\| ?(?P<nccl>2\.\d{1,2}\.\d{1,2})\b[^|\n]{0,60}\|(?P<rest>[^\n]{0,160}?)\| ?(?:runs|works|passes|ok|fine)\b",
    re.MULTILINE | re.IGNORECASE,
)


def libfabric_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The plugin ends at its start, while the same host lists its devices, or ran with other releases."""
    failed = next(((text, found) for text in texts if (found := _FAILED.search(text.text))), None)
    there = next(((text, found) for text in texts if (found := _THERE.search(text.text))), None)
    if failed is None or there is None:
        return None
    text, at = failed
    used = None
    for found in _USES.finditer(text.text, 0, at.start()):
        used = found
    which = f" {named(used['version'].rstrip('.'))}" if used else " that is loaded"
    good = next(((each, row) for each in texts if (row := _GOOD_ROW.search(each.text))), None)
    runs = f", as NCCL {good[1]['nccl']} of the image runs" if good else ""
    seen: list[Evidence] = [there[0].evidence(there[1].start())]
    seen += [text.evidence(used.start())] if used else []
    seen += [good[0].evidence(good[1].start())] if good else []
    take = f" Keep NCCL {good[1]['nccl']}, with which it ran, or" if good else " Else"
    return Sharper(
        f"aws-ofi-nccl does not start with the libfabric{which}, though the EFA devices are there: releases of plugin, "
        f"libfabric and NCCL do not fit together{runs}",
        "take the libfabric of the EFA installer (/opt/amazon/efa) and build the plugin against that one "
        f"(--with-libfabric); ldd libnccl-net.so shows which is loaded.{take} raise plugin, libfabric and NCCL "
        "together, as the plugin's release notes name them. FI_LOG_LEVEL=warn tells what it misses. Devices, "
        "containers and security groups are right",
        tuple(seen),
    )
