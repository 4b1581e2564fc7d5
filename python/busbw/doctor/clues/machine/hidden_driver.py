"""The driver's library is there, and another file of its name is found first: empty, a stub, or of another release."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_LACKS = re.compile(
    "|".join(
        (
            r"Found no NVIDIA driver",
            r"CUDA driver is a stub library",
            r"cudaErrorStubLibrary",
            r"\bCUDA_ERROR_STUB_LIBRARY",
            r"libcuda\.so(?:\.1)?: (?:file too short|invalid ELF|wrong ELF|cannot open)",
            r"no CUDA-capable device",
            r"CUDA driver version is insufficient",
            r"cudaErrorInsufficientDriver",
            r"forward compatibility was attempted",
            r"cudaErrorCompatNotSupportedOnDevice",
            r"\b(?:CUDA_ERROR_NO_DEVICE|cudaErrorNoDevice)\b",
            r"No CUDA GPUs are available",
            r"cuda\w{0,20}(?:\(\))? ?(?:is |= ?|: ?|-> ?)?False\b",
            r"CUDA failure (?:34|35|100|804)\b",
        )
    ),
    re.IGNORECASE,
)
_TOO_OLD = re.compile(r"version is insufficient|cudaErrorInsufficientDriver")
_LISTED = re.compile(
    r"^GPU \d{1,2}: [^\n]{3,80}\(UUID: GPU-|^\|[^\n]{0,60}Driver Version: \d{3}[\d.]{1,12}", re.MULTILINE
)
_EMPTY = re.compile(
    r"^-[rwxst-]{9}[.+]?\s{1,8}\d{1,4}\s{1,8}\S{1,40}\s{1,8}\S{1,40}\s{1,20}0\s[^\n]{5,40}?\s"
    r"(?P<file>\S{0,200}libcuda\.so[\w.]{0,20})\s*$"
    r"|^(?:\[[^\n\]]{0,80}\]\$? ?)?[^\n]{0,120}?(?P<short>(?:/[^\s:]{1,200})?libcuda\.so[\w.]{0,20}): "
    r"(?:file too short|empty\b)",
    re.MULTILINE,
)
_FOUND = re.compile(
    r"libcuda\.so(?:\.1)? => (?P<a>/\S{1,200})|\btrying file=(?P<b>/\S{1,200}libcuda\.so[\w.]{0,20})"
    r"|^\s{0,12}\d{1,9}:\s{1,8}calling init: (?P<c>/\S{1,200}libcuda\.so[\w.]{0,20})",
    re.MULTILINE,
)
_SET = re.compile(r"\b(?P<name>LD_LIBRARY_PATH|LD_PRELOAD)(?:=| ?: )['\"]?(?P<value>[^\s'\";]{2,1000})")
_OF_OTHERS = re.compile(
    r"(?:^|/)(?:stubs|compat|cuda-compat[\w.-]{0,20})(?:/|$)|(?:^|/)[\w.-]{0,40}stubs?[\w.-]{0,40}(?:/|$)"
)
_KINDS = (
    (re.compile(r"stub"), "a stub, which is only there to link against"),
    (re.compile(r"compat"), "that of cuda-compat, which this driver or GPU does not allow"),
)


def hidden_driver(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A program finds no driver, and LD_LIBRARY_PATH or a listing shows a libcuda that is not the driver's."""
    if not any(_LACKS.search(seen.fact) for seen in finding.evidence):
        return None
    for text in texts:
        listed = _LISTED.search(text.text)
        empty = _EMPTY.search(text.text)
        entry, at, name = _entry(text)
        if empty is None and (listed is None or not entry):
            continue
        file = (empty["file"] or empty["short"]) if empty else ""
        if empty is None and "compat" in entry and any(_TOO_OLD.search(seen.fact) for seen in finding.evidence):
            continue  # it is there since the driver is too old, and helps no further
        kind = next((what for words, what in _KINDS if entry and words.search(entry)), "not the driver's")
        what = f"{named(file, 80)} is empty or cut off (0 bytes)" if file else f"the libcuda of {named(entry, 100)}"
        what += "" if file else f" is {kind}"
        by = f" ({name} puts its folder first)" if name and file else f", and {name} puts it first" if name else ""
        there = ", though the driver is there (nvidia-smi lists the GPUs)" if listed else ""
        out = f"take {named(entry, 100)} out of {name}" if entry and name else "take its folder out of LD_LIBRARY_PATH"
        places = [each.start() for each in (empty, listed) if each is not None] + ([at] if entry else [])
        return Sharper(
            f"a file hides the driver's libcuda.so.1: {what}{by}, so that CUDA finds no driver{there}",
            f"{out} (and out of LD_PRELOAD, ld.so.conf.d and the module that sets it), or delete the file. ldconfig -p "
            "| grep libcuda and LD_DEBUG=libs tell which one is loaded. It must be the driver's own, in "
            "/usr/lib/x86_64-linux-gnu or /usr/lib64 (the toolkit puts it into containers). No driver is to be "
            "installed, and PyTorch is the right build",
            tuple(text.evidence(place) for place in places),
        )
    return None


def _entry(text: Text) -> tuple[str, int, str]:
    """The folder or file that stands before the driver's, where it stands, and the variable that says so."""
    for found in _SET.finditer(text.text):
        parts = re.split(r"[:,]", found["value"])
        odd = next((each for each in parts if _OF_OTHERS.search(each) or "libcuda" in each), "")
        # Where a listing shows the file, what was put in front of the old value is its folder.
        first = parts[0] if not odd and len(parts) > 1 and "$" in found["value"] and parts[0] != "$" else ""
        if (entry := odd or first.removeprefix("$PWD/")) and (odd or _EMPTY.search(text.text)):
            return entry, found.start(), found["name"]
    for found in _FOUND.finditer(text.text):
        path = found["a"] or found["b"] or found["c"]
        if _OF_OTHERS.search(path):
            return path, found.start(), ""
    return "", 0, ""
