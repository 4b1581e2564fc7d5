"""Clues of helpers that a job needs beside it on each node: containers that ended, as lists of them show."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_PLUGIN = re.compile(r"\bNET/(?P<name>GPUDirectTCPX|FasTrak|TCPXO?)\b|Using network (?P<used>GPUDirectTCPX|FasTrak)")
_RXDM = r"(?:receive-datapath-manager|tcpgpudmarxd|tcpxo?-daemon|fastrak-?\w{0,10}rxdm|rxdm)[\w.-]{0,60}"
_ENDED = (
    r"(?P<state>Exited \(\d{1,3}\)|Restarting \(\d{1,3}\)|Dead\b|CrashLoopBackOff|Init:CrashLoopBackOff|OOMKilled"
    r"|Error\b|RunContainerError|CreateContainerError)"
)
_ROW = re.compile(rf"^[^\n]{{0,60}}?(?P<name>{_RXDM})[^\n]{{0,200}}?\s{_ENDED}", re.MULTILINE)
_DESCRIBED = re.compile(
    rf"^\s{{1,8}}(?P<name>{_RXDM}):\s*\n(?:\s{{3,12}}[^\n]{{0,200}}\n){{1,12}}?"
    r"\s{3,12}(?:State: {1,20}(?:Terminated|Waiting)\s*\n)?\s{3,16}(?:Reason|State): {1,20}"
    r"(?P<state>CrashLoopBackOff|Error|OOMKilled|Terminated)\b",
    re.MULTILINE,
)
_NONE = re.compile(
    r"^[^\n]{0,80}(?:docker ps|pgrep|ps aux|ps -ef)[^\n]{0,80}(?:rxdm|receive|tcpx)[^\n]{0,60}\n[^\n\w]{0,8}(?:\n|$)",
    re.MULTILINE,
)
"""Somebody looked for it, and nothing was listed."""
_HOST_DRIVER = re.compile(r"^(?P<host>[a-z][\w.-]{1,60}): (?P<driver>\d{3}\.\d{2,3}(?:\.\d{2})?)\s*$", re.MULTILINE)
_HOST_UP = re.compile(rf"^(?P<host>[a-z][\w.-]{{1,60}}): {_RXDM}\s{{1,8}}(?:[^\n]{{0,80}}\s)?Up\b", re.MULTILINE)
_CURE = (
    "`docker logs` (kubectl logs -c) of it tells why it ends. Mostly the node's driver is one that this RxDM does not "
    "know, or it lacks devices and libraries"
)


def receiver_of_tcpx(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Google's plugin receives by a helper on each node (RxDM): whether a list shows that it ended."""
    plugin = next((found for text in texts if (found := _PLUGIN.search(text.text))), None)
    if plugin is None:
        return None
    name = "GPUDirect-TCPXO" if re.search("FasTrak|TCPXO", plugin[0]) else "GPUDirect-TCPX"
    for text in texts:
        found = _ROW.search(text.text) or _DESCRIBED.search(text.text)
        if found is None:
            continue
        drivers, pin, seen = _drivers(texts)
        return Sharper(
            f"RxDM, which receives for Google's plugin ({name}) on each node, does not run: {named(found['name'])} is "
            f"{found['state']}, so that connections are refused{drivers}",
            f"{_CURE}. {pin}Let the prolog, or the pod, wait until it runs on all nodes before ranks start. Firewall, "
            "interfaces and NCCL's settings need no change",
            (text.evidence(found.start("name")), *seen),
        )
    if (none := next(((t, f) for t in texts if (f := _NONE.search(t.text))), None)) is not None:
        return Sharper(
            f"RxDM, which receives for Google's plugin ({name}) on each node, does not run there: connections are "
            "refused",
            f"start it on all nodes before the ranks (prolog, or a container beside them). {_CURE}",
            (none[0].evidence(none[1].start()),),
        )
    return Sharper(
        f"{finding.title}; with {name} it is mostly RxDM, the receiver of that plugin, that does not run",
        "look at each node whether RxDM runs (docker ps -a, kubectl get pods: receive-datapath-manager, tcpx-daemon). "
        f"{_CURE}. Else: {finding.fix}",
    )


def _drivers(texts: Sequence[Text]) -> tuple[str, str, tuple[Evidence, ...]]:
    """The driver of hosts on which it is up, and of the others: as part of the title, of the cure, and the lines."""
    rows = [(text, found) for text in texts for found in _HOST_DRIVER.finditer(text.text)]
    up = {found["host"] for text in texts for found in _HOST_UP.finditer(text.text)}
    good = {found["driver"] for _, found in rows if found["host"] in up}
    bad = [(text, found) for text, found in rows if found["host"] not in up]
    if len(good) != 1 or len({found["driver"] for _, found in bad}) != 1 or bad[0][1]["driver"] in good:
        return "", "Install the driver that the plugin's release notes name, by its version. ", ()
    well, here = good.pop(), bad[0][1]["driver"]
    text, found = next((text, found) for text, found in rows if found["driver"] == well)
    return (
        f" (the driver is {here} here, and {well} on nodes where it runs)",
        f"Pin the driver to {well} where the image is built, as a newest one by default is not yet supported. ",
        (bad[0][0].evidence(bad[0][1].start()), text.evidence(found.start())),
    )


_EXITED = re.compile(
    r"^(?P<name>[a-z0-9][\w.-]{1,80})\s{2,40}[^\n]{0,200}?\s"
    r"(?P<state>Exited \((?P<code>[1-9]\d{0,2})\) [^\n]{3,30}? ago)",
    re.MULTILINE,
)
_TO = re.compile(r"(?:\bto |host=|//|\()'?\"?(?P<host>[a-z][\w.-]{1,80})(?=['\":, ]{1,3}(?:port )?\d{2,5}\b)")


def container_ended(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The host that refuses is a container by its name, and `docker ps -a` shows that this one has ended."""
    hosts = {found["host"] for seen in finding.evidence for found in _TO.finditer(seen.fact)}
    for text in texts if hosts else ():
        for found in _EXITED.finditer(text.text):
            if found["name"] in hosts:
                name = named(found["name"])
                return Sharper(
                    f"the container {name}, which ranks connect to, has ended: {named(found['state'])}",
                    f"`docker logs {name}` tells why; code {found['code']}"
                    f"{' is a kill, mostly for memory (docker inspect: OOMKilled)' if found['code'] == '137' else ''}. "
                    "Start it again before the others. Networks and names need no change",
                    (text.evidence(found.start()),),
                )
    return None
