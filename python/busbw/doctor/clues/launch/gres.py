"""Clues of GPUs that Slurm does not count, though they are there: its library for them, or the time of its start."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_LOWER = re.compile(r"count (?:reported lower than configured|too low) ?\(?(?P<have>\d{1,3}) < (?P<all>\d{1,3})")
_NO_LIBRARY = re.compile(
    r"configured (?:with|to autodetect) (?P<kind>nvml|rsmi|oneapi) functionality, but (?:that lib wasn't found"
    r"|we weren't able to find that lib (?P<built>when Slurm was configured)?)"
)
_LIBRARIES = {"nvml": "libnvidia-ml.so", "rsmi": "librocm_smi64.so", "oneapi": "libze_loader.so"}
_FILE = re.compile(
    r"^(?:[^\n]{0,80} )?/[\w./-]{1,80}/libnvidia-ml\.so(?P<version>\.1|\.\d{3}[\d.]{2,10})?(?: ->|\s{0,4}$)",
    re.MULTILINE,
)
_NO_FILE = re.compile(
    r"can't stat gres\.conf file (?P<file>/dev/[\w/]{3,20})|Waiting for gres\.conf file (?P<w>/dev/\S{3,20})"
)
_LISTED = re.compile(r"(?:^GPU \d{1,2}: [^\n]{3,80}\(UUID: [^\n]{0,60}\)\s{0,4}(?:\n|\Z)){1,32}", re.MULTILINE)
_RESUME = "then scontrol update nodename=NODE state=resume"


def not_counted(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """slurmd could not load the library by which it looks for GPUs, or started before they were there."""
    said = " ".join(seen.fact for seen in finding.evidence)
    lower = _LOWER.search(said)
    if lower is None and "DOWN, DRAINED" not in said and not _NO_LIBRARY.search(said):
        return None
    missing = next(((text, found) for text in texts if (found := _NO_LIBRARY.search(text.text))), None)
    if missing is not None:
        return _without_library(*missing, texts, lower)
    if lower is None:
        return None
    gone = next(((text, found) for text in texts if (found := _NO_FILE.search(text.text))), None)
    all_there = _all_listed(texts, int(lower["all"]))
    counts = f"{lower['have']} of {lower['all']} GPUs"
    if gone is not None:
        file = named(gone[1]["file"] or gone[1]["w"])
        return Sharper(
            f"slurmd started before the driver had made its devices ({file}), and counts {counts}",
            "make the devices before slurmd starts: nvidia-persistenced or nvidia-modprobe -c 0 -u at boot, and "
            f"After=nvidia-persistenced.service in slurmd's unit. Restart slurmd, {_RESUME}",
            (gone[0].evidence(gone[1].start()),),
        )
    if all_there is not None:
        return Sharper(
            f"slurmd counts {counts}, though nvidia-smi lists all of them: it started before the driver was there, or "
            "gres.conf names other types or files",
            "restart slurmd on that node and read its log (slurmd -G, slurmd -C show what it finds). Names, types and "
            f"File= in gres.conf must be those of slurm.conf and of /dev/nvidia*; {_RESUME}. The GPUs need no repair",
            (all_there[0].evidence(all_there[1]),),
        )
    return None


_OF_MIG = re.compile(r"\b\dg\.\d{1,3}gb\b|\bMIG\b")


def _by_hand(kind: str, texts: Sequence[Text]) -> str:
    """How gres.conf names the devices where nothing looks for them."""
    if kind == "rsmi":
        return "Name=gpu File=/dev/dri/renderD[128-135]"
    if kind == "oneapi":
        return "Name=gpu File=/dev/dri/renderD[128-133]"
    if any(_OF_MIG.search(text.text) for text in texts):
        return (
            "for each MIG instance Name=gpu Type=1g.5gb MultipleFiles=, with /dev/nvidiaN and both of its files in "
            "/dev/nvidia-caps"
        )
    return "Name=gpu File=/dev/nvidia[0-7]"


def _without_library(text: Text, found: re.Match[str], texts: Sequence[Text], lower: re.Match[str] | None) -> Sharper:
    kind, host = found["kind"], host_before(text, found.start())
    library = _LIBRARIES[kind]
    seen = [text.evidence(found.start())]
    all_there = _all_listed(texts, int(lower["all"])) if lower else None
    if all_there is not None:
        seen.append(all_there[0].evidence(all_there[1]))
    where = f" on {named(host, 40)}" if host else ""
    counts = f", and counts {lower['have']} of {lower['all']} GPUs" if lower else ""
    there = " that nvidia-smi lists" if all_there and lower else ""
    if found["built"]:
        return Sharper(
            f"this slurmd was built without {kind.upper()}, by which AutoDetect={kind} looks for GPUs{counts}{there}",
            f"install a Slurm that is built with it (its gpu_{kind}.so in the folder of plugins), or list the GPUs in "
            f"gres.conf: {_by_hand(kind, texts)}. Restart slurmd, {_RESUME}. The GPUs need no repair",
            tuple(seen),
        )
    how = (
        f"bring that name back: the package that has it, or ln -s {library}.1 {library} beside it"
        if kind == "nvml"
        else f"install the package with {library}"
    )
    link = _other_name(text, texts, host) if kind == "nvml" else ""
    return Sharper(
        f"slurmd cannot load {library}{where} (AutoDetect={kind}){counts}{there}{link}",
        f"{how}, run ldconfig, restart slurmd (slurmd -G shows what it finds), {_RESUME}. Or list the GPUs in "
        f"gres.conf ({_by_hand(kind, texts)}) without AutoDetect. The GPUs and Gres in slurm.conf need no change",
        tuple(seen),
    )


def _other_name(text: Text, texts: Sequence[Text], host: str) -> str:
    """What a listing of that host shows in the place of the name without a version."""
    names = {
        found["version"] or ""
        for each in texts
        for found in _FILE.finditer(each.text)
        if host_before(each, found.start()) == host
    }
    return ": there it has the name libnvidia-ml.so.1 alone" if ".1" in names and "" not in names else ""


def _all_listed(texts: Sequence[Text], wanted: int) -> tuple[Text, int] | None:
    """Where a list of nvidia-smi -L shows that many GPUs, and none shows fewer."""
    lists = [(text, found) for text in texts for found in _LISTED.finditer(text.text)]
    if not lists or any(len(found[0].splitlines()) < wanted for _, found in lists):
        return None
    return lists[0][0], lists[0][1].start()
