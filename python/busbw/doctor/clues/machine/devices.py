"""Clues of devices and their software: GPUs in parts (MIG) that nobody made, plugins beside the path of libraries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_TABLE = re.compile(
    r"^\|\s{1,4}(?P<gpu>\d{1,3})\s{1,4}\S[^|\n]{2,40}\|\s{1,4}(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)"
    r"[^\n]{0,80}\n\|[^\n]{0,120}\n\|[^\n|]{0,60}\|[^\n|]{0,60}\|\s{0,24}(?P<mig>Enabled|Disabled)\*?\s{0,8}\|",
    re.MULTILINE,
)
"""The three lines that plain `nvidia-smi` has for a GPU."""
_ROW = re.compile(
    r"nvidia-smi says of GPU (?P<gpu>\d{1,3}): [^\n]{0,400}?\bmig\.mode\.current: (?P<mig>Enabled|Disabled)\b"
)
_NONE = re.compile(r"No MIG devices found|No MIG-enabled devices|No GPU instances found", re.IGNORECASE)
_PARTS = re.compile(
    r"^\s{1,8}MIG \d{1,2}g\.\d{1,3}gb[^\n]{0,60}Device\s{1,4}\d|\bMIG-[0-9a-f]{4,8}-[0-9a-f]{4}-"
    r"|^\|\s{1,4}\d{1,3}\s{1,4}\d{1,3}\s{1,4}\d{1,3}\s{1,4}\d{1,3}\s{1,4}\|[^\n]{0,60}MiB",
    re.MULTILINE,
)
"""A part of a GPU, as `nvidia-smi -L` and the table of parts list it."""


def parts_that_are_none(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """GPUs in MIG mode without instances: CUDA leaves them out, and numbers the others anew."""
    for text in texts:
        rows = [*_TABLE.finditer(text.text), *_ROW.finditer(text.text)]
        parted = [each for each in rows if each["mig"] == "Enabled"]
        whole = [each for each in rows if each["mig"] == "Disabled"]
        none = _NONE.search(text.text)
        # One GPU that alone is in that mode was left so; where all are, the list of parts has to tell.
        if not parted or _PARTS.search(text.text) or not (none or whole):
            continue
        numbers = list(dict.fromkeys(each["gpu"] for each in parted))
        which = f"GPU {', '.join(numbers[:8])}" + (" are" if len(numbers) > 1 else " is")
        cut = ",".join(numbers[:8])
        return Sharper(
            f"{which} in MIG mode{' without instances' if none else ''}, so that CUDA leaves "
            f"{'them' if len(numbers) > 1 else 'it'} out: programs see fewer GPUs than nvidia-smi lists",
            f"nvidia-smi -i {cut} -mig 0 while nothing runs there, then reset (nvidia-smi --gpu-reset -i {cut}) or "
            "reboot. Who needs parts makes them: nvidia-smi mig -cgi ... -C. GPU and number of ranks are right",
            tuple(text.evidence(each.start()) for each in (*parted[:2], *((none,) if none else ()))),
        )
    return None


_VISIBLE = re.compile(r"\bCUDA_VISIBLE_DEVICES=['\"]?(?P<list>\d{1,2}(?:,\d{1,2}){0,15})(?![\d,]*[\w-])")
_LISTED = re.compile(r"^GPU (?P<gpu>\d{1,2}): [A-Z][^\n]{2,60} \(UUID: GPU-", re.MULTILINE)


def gpu_that_is_none(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """CUDA_VISIBLE_DEVICES names a GPU that the listing beside the error does not have."""
    for text in texts:
        listed = {int(each["gpu"]): each for each in _LISTED.finditer(text.text)}
        for found in _VISIBLE.finditer(text.text) if listed else ():
            asked = [int(each) for each in found["list"].split(",")]
            absent = [each for each in asked if each not in listed]
            if not absent or set(listed) != set(range(len(listed))):
                continue
            seen = asked.index(absent[0])
            return Sharper(
                f"CUDA_VISIBLE_DEVICES={found['list']} names GPU {absent[0]}, and the host has GPU 0"
                f"{f' to {max(listed)}' if len(listed) > 1 else ''}: CUDA shows {seen} of them, those before it",
                f"set CUDA_VISIBLE_DEVICES to numbers that nvidia-smi -L lists, counted from 0 "
                f"({','.join(map(str, sorted(listed)[: len(asked)]))}), or unset it; start no more ranks than it names",
                (text.evidence(found.start()), text.evidence(listed[max(listed)].start())),
            )
    return None


_PATH = re.compile(
    r"\bLD(?:_LIBRARY_PATH)?[=:][ \t]{0,4}[\"'\[]?(?P<path>/[\w./+-]{1,200}(?::[\w./+-]{0,200}){0,40})(?![\w./:+$-])"
)
"""Its value as echo, env or a Dockerfile shows it; one that goes on from $LD_LIBRARY_PATH tells nothing."""
_FILE = re.compile(
    r"(?P<folder>/[\w./+-]{1,160})/libnccl-net[\w-]{0,20}\.so|^libnccl-net[\w-]{0,20}\.so(?:\.\d)?\s*$", re.MULTILINE
)
_LISTS = re.compile(r"\bls (?:-\w{1,8} ){0,3}(?P<folder>/[\w./+-]{1,160})")
_NEAR = 3000
"""Letters above the name of a file in which the command that lists its folder stands."""


def plugin_beside_path(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The plugin's file is there, in a folder that the path of libraries leaves out."""
    paths = [(text, found) for text in texts for found in _PATH.finditer(text.text)]
    if not paths:
        return None
    searched = {folder.rstrip("/") for _, found in paths for folder in found["path"].split(":")}
    for text in texts:
        for folder, at in _folders(text):
            if folder in searched:
                continue
            of_google = folder.startswith(("/usr/local/nvidia", "/usr/local/gib", "/usr/local/tcpx"))
            script = (
                "; or source nccl-env-profile.sh (set_nccl_env.sh) of that folder, which sets NCCL's variables too"
                if of_google
                else ""
            )
            whose = "Google's network plugin (TCPX, TCPXO, gIB)" if of_google else "the network plugin"
            shown = named(paths[0][1]["path"], 60)
            return Sharper(
                f"{whose} lies in {named(folder)}, and LD_LIBRARY_PATH of the ranks ({shown}) lacks that "
                "folder: NCCL does not find it and uses sockets",
                f"put {named(folder)} first into LD_LIBRARY_PATH in the container (an ENV of the image replaces what "
                f"the provider set){script}. The log must then say `Using network` with the plugin's name. RDMA's "
                "libraries and the provider's daemon are not what is missing",
                (text.evidence(at), paths[0][0].evidence(paths[0][1].start())),
            )
    return None


def _folders(text: Text) -> Iterator[tuple[str, int]]:
    """Folders in which a file of a plugin is shown."""
    for found in _FILE.finditer(text.text):
        if found["folder"]:
            yield found["folder"].rstrip("/"), found.start()
            continue
        lists = list(_LISTS.finditer(text.text, max(0, found.start() - _NEAR), found.start()))
        if lists:
            yield lists[-1]["folder"].rstrip("/"), found.start()
