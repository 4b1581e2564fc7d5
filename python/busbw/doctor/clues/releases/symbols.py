"""Clues of symbols of NCCL that are missing: the release that has them first, and the one that pip lists."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_SYMBOL = re.compile(r"\b(?P<name>p?nccl[A-Z]\w{3,60})")
_SINCE = {
    "ncclRedOpCreatePreMulSum": (2, 11), "ncclGetLastError": (2, 13), "ncclCommInitRankConfig": (2, 14),
    "ncclCommFinalize": (2, 14), "ncclCommSplit": (2, 18), "ncclCommRegister": (2, 19), "ncclCommDeregister": (2, 19),
    "ncclMemAlloc": (2, 19), "ncclMemFree": (2, 19), "ncclGroupSimulateEnd": (2, 22),
    "ncclCommInitRankScalable": (2, 23), "ncclCommWindowRegister": (2, 27), "ncclCommWindowDeregister": (2, 27),
    "ncclCommShrink": (2, 27), "ncclAlltoAll": (2, 28), "ncclGather": (2, 28), "ncclScatter": (2, 28),
    "ncclDevCommCreate": (2, 28),
}  # fmt: skip
"""The release of NCCL that has a function first, after its release notes."""
_PIP = re.compile(
    r"^\W{0,6}(?:\[(?:pip3?|conda)\] )?(?P<name>nvidia-nccl-cu\d\d)(?:==|[ \t]{1,40})"
    r"(?P<version>2\.\d{1,3}\.\d{1,3})\b",
    re.MULTILINE,
)
_TORCH = re.compile(
    r"^\W{0,6}(?:\[(?:pip3?|conda)\] )?torch(?:==|[ \t]{1,40})(?P<version>2\.\d{1,2}\.\d{1,2})\b", re.MULTILINE
)
_OF_TORCH = {
    "2.1": "2.18.1", "2.2": "2.19.3", "2.3": "2.20.5", "2.4": "2.20.5", "2.5": "2.21.5", "2.6": "2.21.5",
    "2.7": "2.26.2", "2.8": "2.27.3", "2.9": "2.27.5",
}  # fmt: skip
"""The NCCL that PyTorch's packages of pip ask for."""


def older_than_symbol(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A function of NCCL is missing that a newer release has: which, and what pip lists in its place."""
    said = " ".join((finding.title, *(seen.fact for seen in finding.evidence)))
    symbol = next((each["name"] for each in _SYMBOL.finditer(said) if each["name"].removeprefix("p") in _SINCE), "")
    if not symbol:
        return None
    since = _SINCE[symbol.removeprefix("p")]
    first = f"{since[0]}.{since[1]}"
    pip = next(((text, each) for text in texts for each in _PIP.finditer(text.text)), None)
    torch = next(((text, each) for text in texts for each in _TORCH.finditer(text.text)), None)
    wants = _OF_TORCH.get(torch[1]["version"].rpartition(".")[0], "") if torch else ""
    by = f", which torch {torch[1]['version']} calls," if torch else ""
    seen = tuple(text.evidence(each.start("version")) for text, each in (*filter(None, (pip, torch)),))
    if pip is not None and tuple(map(int, pip[1]["version"].split(".")[:2])) < since:
        package = named(pip[1]["name"])
        return Sharper(
            f"{package} {pip[1]['version']} is too old: {named(symbol)}{by} is in NCCL {first} and newer",
            f"pip install --force-reinstall --no-deps {package}=={wants or f'{first}.x or newer'}, the release that "
            f"{'this torch asks for' if wants else 'torch asks for'}. See by pip check which package lowered it, and "
            "give that one an environment of its own",
            seen,
        )
    return Sharper(
        f"the NCCL that is loaded is too old: {named(symbol)}{by} is in NCCL {first} and newer",
        f"find which libnccl.so.2 is loaded (ldd libtorch_cuda.so | grep nccl, LD_LIBRARY_PATH, LD_PRELOAD) and leave "
        f"one older than {first} out{f'; torch asks for {wants}' if wants else ''}. Where it is pip's own: pip install "
        "--force-reinstall --no-deps nvidia-nccl-cu12 (cu13) as torch asks for it",
        seen,
    )
