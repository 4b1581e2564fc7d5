"""A release of NCCL that works on the same machines, by the word of who writes, beside one that fails."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_MOST = 200
_NAMES = frozenset(
    {"vm-topology", "nccl-error", "nccl-internal", "nccl-warnings", "init-incomplete", "watchdog-timeout"}
    | {"wrong-results", "illegal-access", "process-crashed", "cuda-call-failed", "stuck-in-collective", "stands-still"}
)
"""What a fault of one release can look like."""
_VERSION = r"2\.\d{1,2}\.\d{1,2}"
_RUNS = re.compile(rf"\bNCCL version (?P<version>{_VERSION})")
_NOT = r"(?![^\n]{0,50}\b(?:not|n't|never|nothing|still|same|hangs?|fail\w*|crash\w*)\b)"
_WORKS = re.compile(
    rf"\bNCCL\W{{0,3}}(?:version |module |release |v)?\W?(?P<after>{_VERSION})\b{_NOT}[^\n#;]{{0,40}}?(?<![\w./-])"
    r"(?:works?|worked|runs? (?:fine|well)|ran (?:fine|well)|(?:is|was) fine|no hang|solve[sd]|fixe[sd])\b"
    rf"|\b(?:works?|worked|runs? (?:fine|well)|fixed|solved|fine|gone|goes away) (?:\w{{1,12}} ){{0,4}}"
    rf"(?:with|on|under|by|after|in) (?:\w{{1,14}} ){{0,3}}NCCL\W{{0,3}}(?:version |v)?(?P<before>{_VERSION})\b",
    re.IGNORECASE,
)


def with_other_release(finding: Finding, texts: Sequence[Text]) -> Finding:
    """The finding; where another release works, that stands in its title and first in its cure."""
    if finding.name not in _NAMES:
        return finding
    runs = {found["version"] for text in texts for found in islice(_RUNS.finditer(text.text), _MOST)}
    if len(runs) != 1:
        return finding
    run = runs.pop()
    for text in texts:
        for found in islice(_WORKS.finditer(text.text), _MOST):
            if (good := found["after"] or found["before"]) == run:
                continue
            fix = f"{finding.fix[:1].lower()}{finding.fix[1:]}" if finding.fix[1:2].islower() else finding.fix
            return replace(
                finding,
                title=f"{finding.title} (NCCL {good} works here, and {run} does not)",
                fix=f"take NCCL {good} again, or a release newer than {run}: machine and network do not differ between "
                f"the two. Else {fix}",
                evidence=(*finding.evidence, text.evidence(found.start())),
            )
    return finding
