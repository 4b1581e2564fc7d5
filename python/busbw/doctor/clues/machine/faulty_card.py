"""Clues of one GPU that stops whatever runs on it: the kernel's lines name it alone, over programs and starts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_XID = re.compile(
    r"Xid \(PCI:(?:[0-9a-fA-F]{4,8}:)?(?P<bus>[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.\d)?\): "
    r"(?P<xid>8|13|31|32|43|69)\b,? ?"
    r"(?:pid='?(?P<pid>\d{1,8})'?, ?)?(?:name=(?P<name>[^,\n]{1,60}), ?)?(?P<rest>[^\n]{0,300})"
)
_CLIENT = re.compile(r"\b(?:GPC\d{0,2} )?GPCCLIENT_\w{1,12}|\(GPC \d{1,2}, TPC \d{1,2}(?:, SM \d{1,2})?\)")
_OTHER_CODE = re.compile(
    r"\b(?:different|several|various|unrelated|other|two|three) (?:code ?bases?|programs?|models?|jobs?|scripts?"
    r"|frameworks?|workloads?|projects?|repos?(?:itories)?)\b|\b(?:any|every) (?:program|job|model|script|workload)\b"
    r"|\beven (?:the |a |with )?(?:plain |simple )?(?:cuda|cudnn|nvidia|pytorch|torchvision|matrix)\b",
    re.IGNORECASE,
)
_WITHOUT = re.compile(r"\b(?:CUDA|NVIDIA)_VISIBLE_DEVICES=(?P<list>\d{1,2}(?:,\d{1,2}){1,15})\b(?P<after>[^\n]{0,160})")
_EXCLUDED = re.compile(
    r"\b(?:without|excluding|leav\w{1,4} out|taking out|except) (?:the )?(?:GPU|card|device) ?#?(?P<gpu>\d{1,2})\b"
    r"[^\n]{0,120}"
)
_WELL = re.compile(
    r"\b(?:fine|works?|worked|runs?|ran|passe[ds]|clean|stable|ok(?:ay)?|hiccup"
    r"|no (?:errors?|crash\w{0,3}|issues?|xids?)|never (?:fail|crash)\w{0,3}|going for|days?|hours?)\b",
    re.IGNORECASE,
)
_BAD = re.compile(
    r"\b(?:fails?|crash(?:es|ed)?|error|same (?:error|problem)|hangs?|dies)\b(?<!no error)", re.IGNORECASE
)
_BUSES = re.compile(r"\b[0-9a-fA-F]{4,8}:(?P<bus>[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\.0\b")
_RANK = re.compile(r"\[rank ?[1-9]\d{0,4}\]|\b[1-9]\d?x (?:NVIDIA|RTX|[ABHLV]\d{2,3}|\d{4} ?Ti|Tesla)")
_FEWEST, _MANY, _MOST = 3, 4, 500


def stops_all(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Several processes failed on one GPU of several, and something tells that it is not their code."""
    hits = [(text, found) for text in texts for found in list(_XID.finditer(text.text))[:_MOST]]
    buses = {found["bus"].lower() for _, found in hits}
    runs = {found["pid"] for _, found in hits if found["pid"]}
    if len(buses) != 1 or len(runs) < _FEWEST or not _has_several(texts):
        return None
    (bus,) = buses
    gpu, listed = _index(texts, bus)
    programs = sorted({found["name"].strip() for _, found in hits if found["name"]})
    places = {place for _, found in hits for place in _CLIENT.findall(found["rest"])[:1]}
    told = sum(bool(_CLIENT.search(found["rest"])) for _, found in hits if found["xid"] == "31")
    well = _well_without(texts, gpu)
    code = next((text.evidence(found.start()) for text in texts if (found := _OTHER_CODE.search(text.text))), None)
    why = [
        *([f"programs {', '.join(named(each, 24) for each in programs[:3])}"] if len(programs) > 1 else []),
        *(["different programs"] if code and len(programs) < 2 else []),
        *(["the others run well without it"] if well else []),
    ]
    same = next(iter(places)) if told >= _FEWEST and len(runs) >= _MANY else ""
    same = same if same and sum(same in found["rest"] for _, found in hits) >= told else ""
    if not why and not same:
        return None
    if same:
        why.append(f"always {named(same, 30)}")
    xids = sorted({int(found["xid"]) for _, found in hits})
    name = f"GPU {gpu} (0000:{bus})" if gpu else f"the GPU at 0000:{bus}"
    leave = f"CUDA_VISIBLE_DEVICES without {gpu}" if gpu else "CUDA_VISIBLE_DEVICES without it"
    lines = [hits[0][0].evidence(hits[0][1].start()), hits[-1][0].evidence(hits[-1][1].start())]
    return Sharper(
        f"{name} seems faulty: all {len(hits)} Xids ({', '.join(map(str, xids))}) of {len(runs)} processes are of it "
        f"alone ({'; '.join(why)})",
        f"take that GPU out ({leave}, or drain the node) and check it alone: dcgmi diag -r 3, gpu-burn or cuda-memtest "
        "for an hour. Where it fails, or another slot does not help, have the board replaced. That the program or "
        "cuDNN accessed a bad address follows from it: the same code runs on the other GPUs",
        tuple(each for each in (*lines, listed, well, code) if each is not None),
    )


def _has_several(texts: Sequence[Text]) -> bool:
    """Whether the machine has more GPUs than one: they are listed, or ranks are numbered."""
    buses = {found["bus"].lower() for text in texts for found in list(_BUSES.finditer(text.text))[:_MOST]}
    return len(buses) > 1 or any(_RANK.search(text.text) for text in texts)


def _index(texts: Sequence[Text], bus: str) -> tuple[str, Evidence | None]:
    """The number of the GPU at that address, where nvidia-smi's list tells it."""
    row = re.compile(
        r"^(?:[| \t]{0,4}|nvidia-smi says of )(?:GPU )?(?P<gpu>\d{1,2})\b[^\n]{0,80}?"
        rf"\b[0-9a-f]{{4,8}}:{bus}\.\d",
        re.IGNORECASE | re.MULTILINE,
    )
    for text in texts:
        if found := row.search(text.text):
            return found["gpu"], text.evidence(found.start())
    return "", None


def _well_without(texts: Sequence[Text], gpu: str) -> Evidence | None:
    """Where somebody says that all goes well on the other GPUs alone."""
    for text in texts:
        for found in _WITHOUT.finditer(text.text):
            if gpu and gpu not in found["list"].split(",") and _is_well(found["after"]):
                return text.evidence(found.start())
        for found in _EXCLUDED.finditer(text.text):
            if found["gpu"] == gpu and _is_well(found[0]):
                return text.evidence(found.start())
    return None


def _is_well(said: str) -> bool:
    return _WELL.search(said) is not None and (
        _BAD.search(said) is None or re.search(r"\bno\b|without", said) is not None
    )
