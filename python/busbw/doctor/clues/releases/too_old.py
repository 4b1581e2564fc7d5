"""Clues of releases of NCCL: too old for the GPUs of the job, or one that fails where another one passes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.machine.platforms import of_topology
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_LOADED = re.compile(
    r"\bNCCL version (?P<a>2\.\d{1,2}(?:\.\d{1,2})?)\b|\busing nccl==(?P<b>2\.\d{1,2}(?:\.\d{1,2})?)\b"
    r"|nvidia-nccl-cu\d{2}(?:==|\s{1,30})(?P<c>2\.\d{1,2}(?:\.\d{1,2})?)\b"
)
_PASSES = re.compile(
    r"^(?=[^\n]{0,300}?(?:\bNCCL\W{0,2}(?:version\W{1,3})?|\bnccl(?:-cu\d\d)?[=-]{1,2}v?)(?P<version>2\.\d{1,2}(?:\.\d{1,2})?)\b)"
    r"(?![^\n]{0,300}\b(?:not|n't|never|nothing|same (?:error|problem)|fails?|failed|hangs?)\b)[^\n]{0,300}?"
    r"(?<![\w./-])(?:all pass|pass(?:es|ed)?|works?(?: fine| well)?|runs? fine|is fine|no (?:error|problem)s?"
    r"|OK|trains fine)\b(?![/:=-])",
    re.MULTILINE,
)
"""Somebody's own words that it passes with a release; the line of NCCL itself has none of them."""
_GPUS = (
    (re.compile(r"\bNVIDIA (?:H(?:100|200|800|20)|GH200)\b|\bH100[ -](?:SXM|PCIe|80GB|NVL)"), "H100 (Hopper)", (2, 15)),
    (re.compile(r"\bNVIDIA (?:GB?[23]00|B[23]00)\b|\bHGX B[23]00"), "B200 (Blackwell)", (2, 25)),
)
"""By product the release that knows it first, after NVIDIA's release notes of NCCL."""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def release_of_nccl(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """NCCL cannot make out the links of GPUs: whether it is older than they are, or another release can."""
    loaded = [(text, found) for text in texts for found in _LOADED.finditer(text.text)]
    passing = next(((text, found) for text in texts for found in _PASSES.finditer(text.text)), None)
    good = passing[1]["version"] if passing else ""
    bad = next(((t, f, v) for t, f in loaded if (v := f["a"] or f["b"] or f["c"]) != good), None)
    if bad is None:
        return None
    text, found, version = bad
    gpus = next(((name, needs) for words, name, needs in _GPUS if any(words.search(t.text) for t in texts)), None)
    old = gpus is not None and _numbers(version)[:2] < gpus[1]
    newer = passing is not None and _numbers(good) > _numbers(version)
    if not (old or newer):
        return None
    first = f"{gpus[1][0]}.{gpus[1][1]}" if gpus and old else good
    why = f"older than {gpus[0]}, which {first} knows first" if gpus and old else f"and {named(good)} passes here"
    also = f", and {named(good)} passes here" if old and newer else ""
    seen = (text.evidence(found.start()), *((passing[0].evidence(passing[1].start()),) if passing else ()))
    return Sharper(
        f"NCCL {version} cannot make out how these GPUs are linked: it is {why}{also}" if old else
        f"NCCL {version} cannot make out how these GPUs are linked, {why}",
        f"load a newer NCCL in that image: {good or first + ' or later'} (a newer PyTorch, pip install -U "
        "nvidia-nccl-cu12, or LD_PRELOAD of its libnccl.so.2); torch.cuda.nccl.version() shows which one is used. "
        "Links, driver and NCCL_TOPO_FILE need nothing",
        seen,
        fails=True,
    )  # fmt: skip


def of_links(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """What NCCL cannot read of the machine: by its release where that decides, else by the platform."""
    if any(_SEARCH.search(seen.fact) for seen in finding.evidence):
        told = release_of_nccl(finding, facts, texts)
        if told is not None:
            return told
    return of_topology(finding, facts, texts)


_SEARCH = re.compile(
    r"reverse path|rev(?:erse)? link|No path computed|path for pattern|\bring \d{1,3} does not|graph/\w{2,12}\.cc"
    r"|Could not find node|XML Import"
)
"""What the search over links says; files and attributes of a virtual machine are of another kind."""
