"""A clue of a rendezvous file (file://) that an earlier run left: it names processes that are gone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_INIT = re.compile(r"(?:init[_-]method|INIT_METHOD)\W{1,4}file://(?P<path>/[\w./-]{1,200})")
_ROW = re.compile(
    r"^\s{0,8}-[rwxst-]{9}\S?\s{1,6}\d{1,4}\s[^\n]{1,60}?\s(?P<day>\d{4}-\d\d-\d\d)[ T](?P<time>\d\d:\d\d)[^\n]{0,30}?"
    r"\s(?:/\S{0,200}/)?(?P<name>[\w.-]{1,100})\s*$",
    re.MULTILINE,
)
"""A file as `ls -l --time-style=full-iso` lists it."""
_NOW = re.compile(r"\b(?P<day>20\d\d-\d\d-\d\d)[ T](?P<time>\d\d:\d\d):\d\d")
_PEER = re.compile(r"(?:Connect to|connect to|peer|from) (?P<ip>\d{1,3}(?:\.\d{1,3}){3})<\d{1,5}>")
_LEAST = timedelta(minutes=30)


def file_of_earlier_run(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The file by which ranks find each other was written before the job began."""
    for text in texts:
        method = _INIT.search(text.text)
        if method is None:
            continue
        path = method["path"]
        line = text.text.rfind("\n", 0, method.start()) + 1
        begun = next((when for found in _NOW.finditer(text.text, line) if (when := _when(found))), None)
        row = next((each for each in _ROW.finditer(text.text) if each["name"] == path.rpartition("/")[2]), None)
        written = _when(row) if row else None
        if row is None or begun is None or written is None or begun - written < _LEAST:
            continue
        peer = next((found["ip"] for seen in finding.evidence if (found := _PEER.search(seen.fact))), "")
        whose = f"so that {peer} is of that run's processes" if peer else "and names processes that are gone"
        return Sharper(
            f"the rendezvous file {named(path, 80)} is of an earlier run (written {row['day']} {row['time']}, this job "
            f"began {begun:%Y-%m-%d %H:%M}), {whose}",
            f"end the job and delete {named(path, 80)} before each start, or give each job a file of its own (its job "
            "id in the name). A run that is killed does not delete it. tcp:// or env:// as init method need no file. "
            "NCCL_SOCKET_IFNAME and the firewall are not at fault",
            (text.evidence(method.start()), text.evidence(row.start("name"))),
        )
    return _nobody_there(finding, texts)


_OWN = re.compile(r"NCCL INFO (?:Bootstrap|NET/Socket) ?: ?Using (?P<list>[^\n]{4,400})")
_REFUSED = re.compile(r"[Rr]efused|errno[ :=]{1,3}111\b")


def _nobody_there(finding: Finding, texts: Sequence[Text]) -> Sharper | None:
    """Nothing tells the file's age, and the address that it gave is of none of the hosts that speak here."""
    said = [seen.fact for seen in finding.evidence if _REFUSED.search(seen.fact)]
    peer = next((found for fact in said if (found := _PEER.search(fact))), None)
    method = next(((text, found) for text in texts if (found := _INIT.search(text.text))), None)
    own = " ".join(found["list"] for text in texts for found in _OWN.finditer(text.text))
    if peer is None or method is None or not own or f":{peer['ip']}<" in own:
        return None
    text, found = method
    path = named(found["path"], 80)
    return Sharper(
        f"nobody listens at {peer['ip']}, an address that ranks have from the rendezvous file {path}: most likely an "
        "earlier run left that file, and its processes are gone",
        f"end the job and delete {path} before each start, or give each job a file of its own (its job id in the "
        "name): a run that is killed does not delete it. tcp:// or env:// as init method need no file. Where the file "
        "was new: see why rank 0 on that host ended. NCCL_SOCKET_IFNAME and the firewall come last",
        (text.evidence(found.start()),),
    )


def _when(found: re.Match[str]) -> datetime | None:
    try:
        return datetime.fromisoformat(f"{found['day']} {found['time']}")
    except ValueError:
        return None
