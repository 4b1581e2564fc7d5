"""Clues of NVLinks: which link of which GPU counts errors, and that its twin without such counts runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_GPU = re.compile(r"^\W{0,4}GPU (?P<gpu>\d{1,3}): [^\n]{3,120}", re.MULTILINE)
_COUNT = re.compile(
    r"\bLink (?P<link>\d{1,2}): (?P<kind>Replay|Recovery|CRC|CRC FLIT|ECC|FLIT CRC) (?:Error|Err)s?(?: Count)?: "
    r"(?P<n>\d{1,18})\b"
)
_FATAL = re.compile(
    r"Xid \(PCI:(?P<bus>[0-9a-fA-F:.]{7,16})\): (?P<xid>74\b[^\n]{0,120}?(?:fatal error detected on link|[Ll]ink)"
    r"|(?:14[4-9]|150)\b[^\n]{0,60}?\bFatal\b[^\n]{0,40}?\b[Ll]ink) (?P<link>\d{1,2})\b"
)
"""Xids of NVLinks that name the link: 74, and from the fifth generation on those that say how grave they are."""
_SAME = re.compile(r"\bon link 0?(?P<link>\d{1,2}) on GPU ?(?P<gpu>\d{1,3})\b")
_NOISE = 0.01
"""Of the worst link's errors: single ones that others counted tell of nothing."""
_MOST = 3


def counting_link(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The one link, or the few, whose counters of errors stand above those of all others, or that Xid 74 names."""
    counted = list(_counts(texts))
    worst: dict[tuple[str, str], tuple[int, str, Text, int]] = {}
    for gpu, link, kind, n, text, at in counted:
        if n > worst.get((gpu, link), (0, "", text, at))[0]:
            worst[gpu, link] = (n, kind, text, at)
    most = max((n for n, *_ in worst.values()), default=0)
    worst = {each: seen for each, seen in worst.items() if seen[0] >= _NOISE * most}
    fatal = next(((text, found) for text in texts if (found := _FATAL.search(text.text))), None)
    if not worst and fatal is None:
        return None
    seen: list[Evidence] = []
    where, xid = _of_driver(fatal[0], fatal[1]) if fatal else ("", "")
    if worst and len(worst) <= _MOST:
        (gpu, link), (n, kind, text, at) = max(worst.items(), key=lambda each: each[1][0])
        name = f"NVLink {link} of GPU {gpu}" if gpu else f"NVLink {link}"
        # Only one that is the same as the driver's message names may be called it.
        bus = f" ({fatal[1]['bus']}, Xid {xid})" if fatal and int(fatal[1]["link"]) == int(link) else ""
        where = f"{name}{bus} has {n} {kind} errors"
        where += _others(worst, (gpu, link))
        seen.append(text.evidence(at))
    if fatal:
        seen.append(fatal[0].evidence(fatal[1].start()))
    if not where or where in finding.title:
        return None
    return Sharper(
        f"an NVLink of a GPU is faulty: {where}",
        "take the node out of use, and have the GPU, its board or the switch's port at the other end checked and "
        "replaced. Errors that return on the same link after a reset or reboot are of the hardware. Until then: "
        f"{finding.fix}. Errors of the switch's port, of other GPUs and of the GPU's firmware after it follow from it; "
        "releases of programs and drivers need no change",
        tuple(seen),
    )


def _of_driver(text: Text, found: re.Match[str]) -> tuple[str, str]:
    """The link that the driver names, with its GPU's number and host where they stand there; the Xid's number."""
    link, xid = int(found["link"]), found["xid"][:3].rstrip(" ,")
    gpu = next((f"GPU {each['gpu']}, " for each in _SAME.finditer(text.text) if int(each["link"]) == link), "")
    host = host_before(text, found.start())
    return f"link {link} of {gpu}{found['bus']}{f' of {named(host, 40)}' if host else ''} (Xid {xid})", xid


def _others(worst: Mapping[tuple[str, str], tuple[int, str, Text, int]], first: tuple[str, str]) -> str:
    """What the other links count beside the worst one."""
    if len(worst) == 1:
        return ", and all other links next to none"
    rest = [(gpu, link, n) for (gpu, link), (n, *_) in worst.items() if (gpu, link) != first]
    return "".join(f", link {link}{f' of GPU {gpu}' if gpu else ''} {n}" for gpu, link, n in rest)


def _counts(texts: Sequence[Text]) -> Iterator[tuple[str, str, str, int, Text, int]]:
    """GPU, link, kind and number of each counter above 0, as `nvidia-smi nvlink -e` lists them."""
    for text in texts:
        heads = [(found.start(), found["gpu"]) for found in _GPU.finditer(text.text)]
        for found in _COUNT.finditer(text.text):
            n = int(found["n"])
            if n:
                gpu = next((gpu for at, gpu in reversed(heads) if at <= found.start()), "")
                yield gpu, found["link"], found["kind"], n, text, found.start()


_DOWN = re.compile(r"^GPU(?P<gpu>\d{1,3}) has (?P<have>\d{1,2}) of (?P<all>\d{1,2}) NVLinks")
_COUNTS_OLD = 10
"""Errors that a link may have counted since long: fewer tell of no fault that goes on."""


def links_of_gpu(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Which links of the GPU are down, and what those beside them count."""
    down = _DOWN.search(finding.title)
    if down is None:
        return None
    off = {
        str(link): Evidence(f"GPU {gpu}, Link {link}: <inactive>", where)
        for gpu, link, where in facts.snapshot.links_off
        if gpu == int(down["gpu"])
    }
    # Where a list names one GPU alone, rows of counters below it are of that one.
    mine = {down["gpu"]} | ({""} if {gpu for gpu, _, _ in facts.snapshot.links_off} == {int(down["gpu"])} else set())
    counts = [each for each in _counts(texts) if each[0] in mine and each[3] >= _COUNTS_OLD]
    counted: dict[str, dict[str, int]] = {}
    for _, link, kind, n, _, _ in sorted(counts, key=lambda each: -each[3]):
        counted.setdefault(link, {})[kind] = n
    seen = [text.evidence(at) for _, _, _, _, text, at in counts]
    if not off and not counted:
        return None
    title = finding.title + (f": link {_and(list(off))} {'is' if len(off) == 1 else 'are'} down" if off else "")
    for link, kinds in list(counted.items())[:2]:
        title += f", and link {link} counts errors ({', '.join(f'{n} {kind}' for kind, n in kinds.items())})"
    bad = _and(sorted({*off, *counted}, key=int))
    errors = "" if counted else ". See whether its other links count errors (nvidia-smi nvlink -e)"
    return Sharper(
        title,
        "take the node out of use, and reset all its GPUs together with NVSwitches and fabric manager (stop "
        "nvidia-fabricmanager, nvidia-smi -r, start it), or reboot. Look at dmesg for Xid 74 and SXid. Where link "
        f"{bad} {'stays' if len({*off, *counted}) == 1 else 'stay'} down or count{'s' * (len({*off, *counted}) == 1)} "
        f"errors again, have GPU {down['gpu']} reseated, then it or its board replaced{errors}. NCCL needs no setting",
        (*list(off.values())[:2], *seen[:3]),
    )


def _and(links: Sequence[str]) -> str:
    return links[0] if len(links) == 1 else f"{', '.join(links[:-1])} and {links[-1]}" if links else ""
