"""Clues of a driver whose libraries an upgrade of packages replaced, while the old kernel module is still loaded."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_LOADED = re.compile(
    r"NVRM version: NVIDIA UNIX [^\n]{0,60}?\bModule\b[^\n]{0,40}?\s(?P<version>\d{3}\.\d{2,3}(?:\.\d{2})?)\s"
)
"""The first line of /proc/driver/nvidia/version."""
_UPGRADED = re.compile(
    r"\blibnvidia-(?:compute|ml)[\w.-]{0,20}(?::\w{3,8})? ?"
    r"(?:\((?P<old>\d{3}\.\d{2,3}(?:\.\d{2})?)[^,)\s]{0,40}, (?P<new>\d{3}\.\d{2,3}(?:\.\d{2})?)"
    r"|(?P<was>\d{3}\.\d{2,3}(?:\.\d{2})?)\S{0,40} (?P<now>\d{3}\.\d{2,3}(?:\.\d{2})?))"
)
"""What apt's history and dpkg's log say of the package that holds libcuda and NVML."""
_LACKS = re.compile(r"\bGPU", re.IGNORECASE)


def libraries_upgraded(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The loaded module has the version that an upgrade of the libraries replaced."""
    said = (finding.title, *(seen.fact for seen in finding.evidence))
    if not any(_LACKS.search(each) for each in said):
        return None
    for text in texts:
        for loaded in _LOADED.finditer(text.text):
            host = host_before(text, loaded.start())
            changes = [
                (found, found["old"] or found["was"], found["new"] or found["now"])
                for found in _UPGRADED.finditer(text.text)
                if host_before(text, found.start()) == host
            ]
            # The last change counts: one that was taken back leaves both alike.
            if not changes or changes[-1][2] == loaded["version"] or changes[0][1] != loaded["version"]:
                continue
            upgrade, _, new = changes[-1]
            by = " (unattended-upgrade)" if "unattended-upgr" in text.text else ""
            where = f" of {named(host, 40)}" if host else ""
            return Sharper(
                f"the driver{where} does not fit its libraries: module {loaded['version']} is loaded, and an upgrade "
                f"of packages{by} replaced the libraries by {new}. CUDA and NVML fail there, and its GPUs do not count",
                "restart that node, or unload and load the nvidia modules when no process uses them, and start its "
                "daemons again (ray start, kubelet, slurmd). Keep the driver's packages out of automatic upgrades: "
                "apt-mark hold, or Unattended-Upgrade::Package-Blacklist. Settings of the job need no change",
                (text.evidence(loaded.start()), text.evidence(upgrade.start())),
            )
    return None
