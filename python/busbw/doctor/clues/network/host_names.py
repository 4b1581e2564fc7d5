"""A clue of host names: two machines that NCCL takes for one, as the first parts of their names are the same."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_MOST = 2000
_SAYS = re.compile(
    r"(?<![\w.-])(?P<host>[A-Za-z][\w-]{0,60}(?:\.[\w-]{1,40}){0,6}):\d{1,8}:\d{1,8} \[\d{1,3}\] [^\n]{0,40}"
)
_ADDRESS = re.compile(
    r"(?<![\w.-])(?P<host>[A-Za-z][\w-]{0,60}):(?P<pid>\d{1,8}):\d{1,8} \[\d{1,3}\] [^\n]{0,60}?\bUsing "
    r"(?:interface |\[0\])?(?P<net>(?!lo\b|docker|br-|veth)[a-z][\w.-]{0,20}):(?P<ip>\d{1,3}(?:\.\d{1,3}){3})<"
)
_LONG = r"(?<![\w.-]){}\.(?P<domain>[a-z][\w-]{{0,40}}(?:\.[\w-]{{1,40}}){{0,5}})(?![\w-])"
_NO_DOMAIN = re.compile(r"(?:log|out|err|txt|json|yaml|py|sh|local)(?:\.\w{1,5})?$")
"""How files of a host end, and the name that a host has beside its own."""
_INSIDE = re.compile(r"\bvia (?:P2P|SHM|direct shared memory)\b")


def one_name_of_two(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Ranks of one short name run on two machines, by their long names or addresses, and share memory as one host."""
    inside = next(((text, found) for text in texts if (found := _INSIDE.search(text.text))), None)
    names = {found["host"].partition(".")[0] for text in texts for found in islice(_SAYS.finditer(text.text), _MOST)}
    for name in sorted(names)[:16]:
        seen = _by_domain(name, texts) or _by_address(name, texts) or (_by_process(name, texts) if inside else {})
        if len(seen) > 1:
            who = " and ".join(list(seen)[:2])
            return Sharper(
                f"two machines have the same short name, {named(name)} ({named(who, 90)}): NCCL takes them for one "
                "host and shares GPU memory between them (P2P/IPC, SHM), which cannot work",
                "give each machine another name up to the first dot (hostnamectl set-hostname), or a newer NCCL: it "
                "compares the kernel's boot id too. NCCL 2.4 and newer takes another NCCL_HOSTID on each host instead. "
                "Containers, GPUs and peer access are not at fault",
                (*list(seen.values())[:2], *((inside[0].evidence(inside[1].start()),) if inside else ())),
            )
    return None


def _by_domain(name: str, texts: Sequence[Text]) -> dict[str, Evidence]:
    words = re.compile(_LONG.format(re.escape(name)))
    seen: dict[str, Evidence] = {}
    for text in texts:
        for found in islice(words.finditer(text.text), _MOST):
            if not _NO_DOMAIN.search(found["domain"]):
                seen.setdefault(f"{name}.{found['domain']}", text.evidence(found.start()))
    # One domain that another one begins with is a shorter way of writing it.
    return {each: at for each, at in seen.items() if not any(o != each and o.startswith(f"{each}.") for o in seen)}


def _by_address(name: str, texts: Sequence[Text]) -> dict[str, Evidence]:
    """Addresses of one interface, where the host has more than one there."""
    nets: dict[str, dict[str, Evidence]] = defaultdict(dict)
    for text in texts:
        for found in islice(_ADDRESS.finditer(text.text), _MOST):
            if found["host"] == name:
                nets[found["net"]].setdefault(f"{found['net']} {found['ip']}", text.evidence(found.start()))
    return next((seen for seen in nets.values() if len(seen) > 1), {})


def _by_process(name: str, texts: Sequence[Text]) -> dict[str, Evidence]:
    """Interfaces of two processes, where neither has one of the other's: on one host all see the same."""
    own: dict[str, dict[str, Evidence]] = defaultdict(dict)
    for text in texts:
        for found in islice(_ADDRESS.finditer(text.text), _MOST):
            if found["host"] == name:
                own[found["pid"]].setdefault(f"{found['net']} {found['ip']}", text.evidence(found.start()))
    if not own:
        return {}
    first = next(iter(own.values()))
    other = next((each for each in own.values() if first.keys().isdisjoint(each)), {})
    return {**dict(list(first.items())[:1]), **dict(list(other.items())[:1])}
