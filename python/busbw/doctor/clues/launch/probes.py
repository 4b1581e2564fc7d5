"""Clues of Kubernetes' probes: a container that is ended while its server still loads the model."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_ENDED = re.compile(r"failed (?P<what>liveness|startup) probe, will be restarted")
_LOADS = re.compile(
    r"[Ll]oading (?:[\w-]{1,20} ){0,3}shards:\s{1,6}\d{1,3}%[^\n|]{0,14}\|(?:[^\n|]{0,60}\|)?\s{0,3}"
    r"(?P<done>\d{1,5})/(?P<all>\d{1,5}) \[(?P<passed>[\d:]{4,8})<(?P<left>[\d:]{4,8})"
)
"""The bar of vLLM, SGLang and transformers."""
_TIMES = re.compile(
    r"^\s{0,12}(?P<what>Liveness|Startup): [^\n]{0,200}\bdelay=(?P<delay>\d{1,5})s [^\n]{0,40}"
    r"\bperiod=(?P<period>\d{1,5})s[^\n]{0,40}#failure=(?P<failures>\d{1,5})",
    re.MULTILINE,
)
_MINUTE, _HOUR = 60, 3600


def killed_while_loading(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The kubelet ended the container by a probe, and no bar of its weights came to its end."""
    ended = next((found for seen in finding.evidence if (found := _ENDED.search(seen.fact))), None)
    bars = [(text, found) for text in texts for found in _LOADS.finditer(text.text)]
    if ended is None or not bars or any(int(found["done"]) >= int(found["all"]) for _, found in bars):
        return None
    text, last = bars[-1]
    needs = _seconds(last["passed"]) + _seconds(last["left"])
    given = next(
        ((each, found) for each in texts for found in _TIMES.finditer(each.text)
         if found["what"].lower() == ended["what"]), None,
    )  # fmt: skip
    seen, waits = [text.evidence(last.start())], ""
    if given is not None:
        times = given[1]
        patience = int(times["delay"]) + int(times["period"]) * int(times["failures"])
        if patience > needs:
            return None  # it had the time
        waits = f", and the probe waits {patience} s"
        seen.append(given[0].evidence(times.start("what")))
    return Sharper(
        f"Kubernetes ends the container by its {ended['what']} probe while the server still loads its weights "
        f"({last['done']} of {last['all']} shards): loading takes {needs} s{waits}",
        f"give it a startupProbe with failureThreshold x periodSeconds of {_budget(needs)} s or more, or a larger "
        "initialDelaySeconds. The liveness probe begins only after a startupProbe has passed. Faster storage or a "
        "local copy of the weights shortens it. Other errors of workers, Ray and NCCL follow from that end",
        tuple(seen),
    )


def _seconds(clock: str) -> int:
    """What the bar says as minutes and seconds, or with hours before."""
    total = 0
    for part in clock.split(":"):
        total = total * _MINUTE + int(part or 0)
    return total


def _budget(needs_s: int) -> int:
    """Half as much again, for compiling and graphs after it, in whole minutes; half an hour at least."""
    return max(_HOUR // 2, -(-needs_s * 3 // 2 // _MINUTE) * _MINUTE)
