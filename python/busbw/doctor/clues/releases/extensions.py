"""An extension of PyTorch that was built for another release of it: which one, on which host, and who waits for it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_FAILS = re.compile(
    r"\b(?:ImportError|OSError): (?:/[^\s/:]{1,80}){0,16}/(?P<folder>[^\s/:]{1,80})/(?P<name>[\w-]{1,80})"
    r"(?:\.[\w-]{1,60})?\.so: undefined symbol: (?P<symbol>_Z\w{0,3}K?(?:3c10|2at|5torch)\w{0,200})"
)
_HOST = re.compile(r"^\s{1,6}host\s{1,8}: (?P<host>[A-Za-z][\w.-]{0,80})\s{0,4}$", re.MULTILINE)
_FAR = 6000
_JOINED = re.compile(r"\b(?P<came>\d{1,6})/(?P<all>\d{1,6}) clients joined")


def built_for_another(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A process could not import an extension, as PyTorch's own symbols that it calls are missing."""
    for text in texts:
        fails = _FAILS.search(text.text)
        if fails is None:
            continue
        host = _HOST.search(text.text, fails.end(), fails.end() + _FAR)
        joined = next(((each, one) for each in texts if (one := _JOINED.search(each.text))), None)
        where = f" on {named(host['host'], 40)}" if host else ""
        wait = ""
        if joined is not None and int(joined[1]["came"]) < int(joined[1]["all"]):
            wait = f". Its ranks never started: {joined[1]['came']} of {joined[1]['all']} processes met"
        # Packages call theirs _C and the like.
        own = "" if not fails["name"].startswith("_") else f"{fails['folder']}/"
        name = named(f"{own}{fails['name']}", 80)
        return Sharper(
            f"{name}{where} was built for another PyTorch than the one that loads it: a symbol of PyTorch is missing "
            f"({named(fails['symbol'], 60)}){wait}",
            f"build or install it anew{where} for the torch that is there (pip install --force-reinstall "
            "--no-build-isolation, or the wheel of that torch, CUDA and C++ ABI). Compare pip list of all nodes, or "
            "start all from one image: an upgrade of torch alone breaks its extensions. Ports, network and NCCL have "
            "no part in it",
            tuple(
                each.evidence(one.start())
                for each, one in (
                    (text, fails),
                    *(((text, host),) if host else ()),
                    *((joined,) if wait and joined else ()),
                )
            ),
        )
    return None
