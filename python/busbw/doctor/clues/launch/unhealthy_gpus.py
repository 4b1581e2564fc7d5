"""A clue of GPUs that Kubernetes' device plugin took out: nodes then offer fewer than they have."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_LACKS = re.compile(r"Insufficient (?P<what>nvidia\.com/[\w.-]{1,60})")
_TOO_OLD = re.compile(
    r"^[^\n]{0,160}?(?P<gpu>GPU-[0-9a-fA-F-]{8,40})?\s{0,2}(?:is )?too old to support health? ?t?checking"
    r"(?:[^\n]{0,120}[Mm]arking it (?:as )?unhealthy)?",
    re.MULTILINE,
)
_MARKED = re.compile(
    r"XidCriticalError: Xid=(?P<xid>\d{1,3}) on (?:Device|GPU)=(?P<a>[\w-]{4,60})[^\n]{0,80}unhealthy"
    r"|'?nvidia\.com/[\w.-]{1,40}'? device marked unhealthy: (?P<b>[\w-]{4,60})"
)
_MODEL = re.compile(
    r"^\|\s{1,4}\d{1,2}\s{1,4}(?P<a>[A-Z][\w -]{3,40}?)\s{2,20}(?:On|Off|N/A)\s"
    r"|^GPU \d{1,2}: (?P<b>[^\n(]{3,60}) \(UUID",
    re.MULTILINE,
)


def marked_unhealthy(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The plugin takes a GPU for unhealthy that pods ask for."""
    lacks = next((found for seen in finding.evidence if (found := _LACKS.search(seen.fact))), None)
    if lacks is None:
        return None
    what = named(lacks["what"].rstrip("."))
    for text in texts:
        if (found := _TOO_OLD.search(text.text)) is not None:
            model = next((row for each in texts if (row := _MODEL.search(each.text))), None)
            which = f" ({named((model['a'] or model['b']).strip(), 40)})" if model else ""
            return Sharper(
                f"the device plugin marks the node's GPU{which} unhealthy, as it is too old for its health check, so "
                f"that the node offers no {what}",
                "switch that check off: DP_DISABLE_HEALTHCHECKS=all (or xids) in the environment of the plugin's "
                "daemonset. Then kubectl describe node shows the GPU as allocatable. Or take a newer release of the "
                "plugin, or a newer GPU. The GPU, its driver and Docker's runtime work; more nodes do not help",
                (text.evidence(found.start()),),
            )
        if (found := _MARKED.search(text.text)) is not None:
            why = f" after Xid {found['xid']}" if found["xid"] else ""
            gpu = named(found["a"] or found["b"], 44)
            return Sharper(
                f"the device plugin has marked a GPU unhealthy{why} ({gpu}), so that the node offers one {what} less",
                "look at that GPU on its node: dmesg | grep -i xid, nvidia-smi -q. Mend what it tells (reset, reboot, "
                "replace), then restart the plugin's pod: it takes no GPU back by itself. Without a fault of the "
                "GPU: DP_DISABLE_HEALTHCHECKS=NUMBER leaves that Xid out",
                (text.evidence(found.start()),),
            )
    return None
