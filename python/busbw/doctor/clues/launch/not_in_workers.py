"""Clues of a setting that somebody tried, and that did not reach the workers which Ray started."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_TRIED = re.compile(r"\b(?P<name>NCCL_P2P_DISABLE)['\"]?[= ]{1,3}['\"]?1\b")
_HAS = re.compile(
    r"^\((?P<who>\w{2,60}) pid=\d{1,9}(?:, ip=[\w.:]{3,45})?\) (?P<name>NCCL_\w{2,40})=(?P<value>[^\s]{1,80})\s*$",
    re.MULTILINE,
)
"""A worker's environment, as Ray shows what workers print."""
_REACHED = re.compile(r"\bNCCL_P2P_DISABLE(?: set by environment to|: ) ?1\b")
_OF_ITS_OWN = re.compile(r"^NCCL_P2P_LEVEL$")
_MOST = 512


def not_passed_on(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Workers list their settings, and the one that was tried in the shell is not among them."""
    has = [(text, each) for text in texts for each in islice(_HAS.finditer(text.text), _MOST)]
    tried = next(((text, each) for text in texts if (each := _TRIED.search(text.text))), None)
    names = {each["name"]: each["value"] for _, each in has}
    if tried is None or len(names) < 2 or tried[1]["name"] in names or any(_REACHED.search(t.text) for t in texts):
        return None
    name, who = tried[1]["name"], named(has[0][1]["who"])
    listed = ", ".join(f"{named(each)}={named(value, 20)}" for each, value in list(names.items())[:3])
    level = ". Take NCCL_P2P_LEVEL out, which asks for such transfers" if any(map(_OF_ITS_OWN.match, names)) else ""
    return Sharper(
        f"{name}=1 did not reach the workers of Ray ({who} has {listed}): {finding.title}",
        f'pass it on to the workers: ray.init(runtime_env={{"env_vars": {{"{name}": "1"}}}}), or the env_vars of the '
        "program's own config. Else export it before ray start on each node. NCCL's log of a worker then tells that "
        f"it is set{level}",
        (tried[0].evidence(tried[1].start()), has[0][0].evidence(has[0][1].start())),
    )
