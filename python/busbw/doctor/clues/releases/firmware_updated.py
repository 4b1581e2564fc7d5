"""A clue of AMD GPUs that hang: a package manager's log shows that their firmware was changed just before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_NAME = (
    r"(?:linux-firmware(?:-(?:amdgpu|amd-graphics|amd))?|amd-gpu-firmware|firmware-amd-graphics|amdgpu-dkms-firmware)"
)
_VERSION = r"\d[\w.:+~]{3,40}(?:-[\w.~]{1,30})?"
_PAIR = re.compile(
    # pacman's log, apt's history and its terminal; zypper.
    rf"\bupgraded (?P<a>{_NAME}) \((?P<a_old>{_VERSION}) -> (?P<a_new>{_VERSION})\)"
    rf"|\b(?P<b>{_NAME}):\w{{3,6}} \((?P<b_old>{_VERSION}), (?P<b_new>{_VERSION})\)"
    rf"|\bUnpacking (?P<c>{_NAME}) \((?P<c_new>{_VERSION})\) over \((?P<c_old>{_VERSION})\)"
    rf"|^\W{{0,4}}(?P<d>{_NAME}) {{1,8}}(?P<d_old>{_VERSION}) -> (?P<d_new>{_VERSION})",
    re.MULTILINE,
)
_OF_DNF = re.compile(
    rf"^\s{{0,8}}(?P<what>Upgraded?|Replaced|Obsoleted)\s{{1,8}}(?P<name>{_NAME})-(?P<version>{_VERSION})", re.MULTILINE
)
"""dnf names the old package as Upgraded or Replaced, and the new one as Upgrade."""
_MES = re.compile(
    r"^\s{0,8}MES feature version: \d{1,4}, (?:firmware|fw) version: (?P<version>0x[\da-f]{8})", re.MULTILINE
)
_FAILS = re.compile(
    r"\bMES |gfxhub|ring \S{1,40} timeout|GPU Hang|GPU reset|SMU"
    r"|[Pp]age fault|[Ff]ailed to (?:evict|load)|failed to remove"
)


def after_firmware(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """GPUs hang since the firmware that the driver loads was updated."""
    if not any(_FAILS.search(seen.fact) for seen in finding.evidence):
        return None
    update = next((each for text in texts for each in _updates(text)), None)
    if update is None:
        return None
    name, old, new, (text, at) = update
    mes = next(((each, found) for each in texts if (found := _MES.search(each.text))), None)
    of_mes = f" (MES {mes[1]['version']})" if mes else ""
    hangs = (
        "its scheduler (MES) no longer answers" if any("MES " in seen.fact for seen in finding.evidence) else "it hangs"
    )
    return Sharper(
        f"an AMD GPU hangs with firmware that was just updated: {name} {old} -> {new}{of_mes}; {hangs}",
        f"go back to {name} {old} (dnf downgrade, apt install NAME=VERSION, pacman -U from the cache) and hold it, or "
        "on to a release that mends it. Then build the initramfs anew (dracut -f, update-initramfs -u, mkinitcpio -P) "
        "and reboot: the driver loads firmware from there. The memory faults of programs are sequels. Else: a GPU that "
        "hangs with the old firmware, too, is to be tested alone",
        (text.evidence(at), *((mes[0].evidence(mes[1].start()),) if mes else ())),
    )


def _updates(text: Text) -> Iterator[tuple[str, str, str, tuple[Text, int]]]:
    """Name, old and new version of packages of firmware that a log of a package manager shows, and where."""
    for found in _PAIR.finditer(text.text):
        letter = next(each for each in "abcd" if found[each])
        old, new = found[f"{letter}_old"], found[f"{letter}_new"]
        if old != new:
            yield named(found[letter]), named(old), named(new), (text, found.start())
    rows: dict[str, dict[bool, re.Match[str]]] = {}
    for row in _OF_DNF.finditer(text.text):
        rows.setdefault(row["name"], {})[row["what"] == "Upgrade"] = row
    # The package of the GPUs' own firmware says more than the one that holds all.
    for name, both in sorted(rows.items(), key=lambda each: "amd" not in each[0]):
        if len(both) == 2 and both[True]["version"] != both[False]["version"]:
            yield named(name), named(both[False]["version"]), named(both[True]["version"]), (text, both[True].start())
