"""A clue of Kubernetes: the address of rank 0 names its pod under another service or namespace than the pod has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.launch.pods import POD, SERVICES
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_LABEL = r"[a-z][a-z0-9-]{0,62}"
_HEADLESS = re.compile(
    rf"^\s{{0,4}}(?:service/)?(?P<name>{_LABEL})\s{{1,60}}ClusterIP\s{{1,30}}None\b",
    re.MULTILINE,
)
_ANY = re.compile(
    rf"^\s{{0,4}}(?:[a-z0-9-]{{1,63}}\s{{1,40}})?(?:service/)?(?P<name>{_LABEL})\s{{1,60}}"
    r"(?:ClusterIP|NodePort|LoadBalancer|ExternalName)\b",
    re.MULTILINE,
)
_SUBDOMAIN = re.compile(rf"^\s{{1,24}}(?:- )?subdomain: [\"']?(?P<name>{_LABEL})\b", re.MULTILINE)


def of_another_service(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The pod has a name in DNS, and the address that does not resolve differs from it behind the pod."""
    said = "\n".join((finding.title, *(seen.fact for seen in finding.evidence)))
    for asked in islice(POD.finditer(said), 8):
        pod, service, space = asked["pod"], asked["service"], asked["space"] or ""
        own = _own_name(pod, texts) or _by_subdomain(service, texts) or _by_list(service, texts)
        if own is None:
            continue
        real, real_space, why, seen = own
        if real == service and (not space or not real_space or space == real_space):
            continue
        right = f"{pod}.{real}" + (f".{real_space}" if space and real_space else "")
        what = f"service {named(service)}" if real != service else f"namespace {named(space)}"
        instead = named(real if real != service else real_space)
        set_by = "MASTER_ADDR" if any(f"MASTER_ADDR={asked[0]}" in text.text for text in texts) else "rank 0's address"
        return Sharper(
            f"{set_by} names {named(pod)} under {what}, and its {what.partition(' ')[0]} is {instead} ({why}): "
            f"{named(asked[0], 100)} does not resolve",
            f"set MASTER_ADDR={named(right, 120)}, or the whole name {named(pod)}.{named(real)}."
            f"{named(real_space) or 'NAMESPACE'}.svc.cluster.local. Operators and charts make it from a name of their "
            "own: in a pod hostname -f tells the right one. DNS itself, the port and network policies need no repair",
            seen,
        )
    return None


_Own = tuple[str, str, str, tuple[Evidence, ...]]
"""Service, namespace (or ""), how that is known, and where."""


def _own_name(pod: str, texts: Sequence[Text]) -> _Own | None:
    """The whole name of the pod, as its hostname -f or /etc/hosts has it."""
    words = re.compile(
        rf"(?:^|\s){re.escape(pod)}\.(?P<service>{_LABEL})\.(?P<space>[a-z0-9][a-z0-9-]{{0,62}})\.svc(?:\.[\w.-]{{1,80}})?"
        r"(?=\s|$)",
        re.MULTILINE,
    )
    for text in texts:
        if found := words.search(text.text):
            return found["service"], found["space"], "by its own whole name", (text.evidence(found.end() - 1),)
    return None


def _by_subdomain(service: str, texts: Sequence[Text]) -> _Own | None:
    """The subdomain that the pods' specification gives all of them."""
    found = [(text, each) for text in texts for each in islice(_SUBDOMAIN.finditer(text.text), 64)]
    names = {each["name"] for _, each in found}
    if len(names) != 1 or service in names:
        return None
    text, first = found[0]
    return first["name"], "", "by the subdomain of its pods", (text.evidence(first.end() - 1),)


def _by_list(service: str, texts: Sequence[Text]) -> _Own | None:
    """The one headless service that kubectl lists, where all are listed and that of the address is not among them."""
    for text in texts:
        for listed in SERVICES.finditer(text.text):
            rows = listed["rows"]
            bare = list(_HEADLESS.finditer(rows))
            if len(bare) == 1 and service not in {each["name"] for each in _ANY.finditer(rows)}:
                seen = text.evidence(listed.start("rows") + bare[0].start("name"))
                return bare[0]["name"], "", "the one headless service there", (seen,)
    return None
