"""Clues of the NVLink domain over hosts, where IMEX itself runs: whose session it is, and whether there is a domain."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_IN_USE = re.compile(r"Imex session[^\n]{0,60}(?:NV_ERR_IN_USE|in use)")
_OF_HOST = re.compile(
    r"^\s{0,12}(?:\S{1,32} {1,12})?\d{1,9} {1,8}[^\n]{0,60}?/usr/(?:local/)?s?bin/nvidia-imex -c /etc/[^\n]{0,80}$"
    r"|(?:systemctl status|is-active) nvidia-imex[^\n]{0,40}\n(?:[^\n]{0,160}\n){0,3}?\s{0,8}(?:Active: )?active\b"
    r"|nvidia-imex\.service[^\n]{0,80}\b(?:active|enabled|running)\b",
    re.MULTILINE,
)
_PODS = re.compile(r"[Cc]ompute-?[Dd]omain|/imexd/|dra-driver", re.MULTILINE)


def session_of_host(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """IMEX cannot start in a pod, as the host's own service holds the one session that the driver gives."""
    used = next(((text, found) for text in texts if (found := _IN_USE.search(text.text))), None)
    if used is None:
        return None
    host = next(((text, found) for text in texts if (found := _OF_HOST.search(text.text))), None)
    pods = any(_PODS.search(text.text) for text in texts)
    who = "the host's own nvidia-imex service" if host else "another nvidia-imex (mostly the host's own service)"
    mine = "the daemon of the ComputeDomain" if pods else "this one"
    return Sharper(
        f"the driver gives one IMEX session a host, and {who} holds it: {mine} cannot start (NV_ERR_IN_USE)",
        "on every host: systemctl disable --now nvidia-imex.service and systemctl mask nvidia-imex.service (keep it "
        f"out of the image), then let {mine} start again. Where jobs run without Kubernetes keep the service, and "
        "start no other. Fabric Manager, nodes_config.cfg and the scheduler are not at fault",
        tuple(text.evidence(found.start()) for text, found in (used, *([host] if host else []))),
    )


_NO_CLUSTER = re.compile(r"ClusterUUID\s{0,40}: (?P<id>00000000-0000-0000-0000-0{12})\b")
_CLUSTER = re.compile(r"ClusterUUID\s{0,40}: (?!00000000-0000-0000)[0-9a-f]{8}-")
_ONE_BOX = re.compile(
    r"^(?:Product Name: |\s{0,8})?(?P<name>(?:PowerEdge|ThinkSystem|ProLiant|DGX|HGX|Cray)[ \w-]{0,12}"
    r"(?:XE\d{4}L?|XD\d{3}|SR\d{3}\w{0,3}|[AHB][123]00)\b)",
    re.MULTILINE,
)
_READY = re.compile(r"Node #\d{1,4}[^\n]{0,60}- READY\b")
_UP = re.compile(r"Domain [Ss]tate: {0,4}UP\b")
_BROKEN = re.compile(
    r"Domain [Ss]tate: {0,4}(?:DEGRADED|DOWN|INITIALIZING)|Node #\d{1,4}[^\n]{0,60}- (?:UNAVAILABLE|INVALID)"
    r"|caps-imex-channels\S{0,12}[^\n]{0,8}No such file"
)


_LISTED = re.compile(
    r"^[^\n]{0,80}?Process \d{1,5} \([\w.-]{1,80}\): device \d{1,2}: (?P<a>[^\n(]{3,60}?) \([0-9A-Fa-f:.]{5,16}\)"
    r"|^(?:\|\s{1,4}\d{1,2}\s{1,4}|GPU \d{1,2}: )(?P<b>NVIDIA [\w -]{2,40}?)(?: \(UUID|\s{2,20}(?:On|Off)\s)",
    re.MULTILINE,
)
"""GPUs as nvbandwidth's processes and nvidia-smi list them."""
_OF_RACKS = re.compile(r"\bG[BH]\d{3}\b|Rubin|\bVR\d{3}\b")
_ASKED = re.compile(r"MultinodeMemoryAllocation|multinode_\w{4,60}|NOT_PERMITTED\][^\n]{0,60}cuMemCreate")


def without_racks(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A test of memory over hosts on GPUs that no rack joins by NVLinks: it cannot work there, whatever is set up."""
    asked = any(_ASKED.search(seen.fact) for seen in finding.evidence)
    rows = [(text, found) for text in texts for found in _LISTED.finditer(text.text)]
    if not asked or not rows or any(_OF_RACKS.search(found[0]) for _, found in rows):
        return None
    text, found = rows[0]
    name = named((found["a"] or found["b"]).removeprefix("NVIDIA ").strip(), 40)
    return Sharper(
        f"no NVLink joins these hosts ({name}): the multinode mode shares memory between hosts (fabric handles, IMEX), "
        "and these GPUs have no such domain",
        "leave the multinode tests out: run nvbandwidth on each host alone, without MPI. Between the hosts measure the "
        "network: all_reduce_perf of nccl-tests over both. Only racks such as GB200 NVL72 have NVLinks between hosts, "
        "with IMEX and its channel in each container. NCCL needs none of that; ssh, MPI and memory are in order",
        (text.evidence(found.start()),),
    )


def without_domain(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Hosts that share no NVLink: their GPUs belong to no cluster, however well IMEX runs."""
    none = next(((text, found) for text in texts if (found := _NO_CLUSTER.search(text.text))), None)
    if none is None or any(_CLUSTER.search(text.text) for text in texts):
        return _though_ready(texts)
    box = next(((text, found) for text in texts if (found := _ONE_BOX.search(text.text))), None)
    ready = next(((text, found) for text in texts if (found := _READY.search(text.text))), None)
    which = f" ({named(box[1]['name'], 40)})" if box else ""
    well = " IMEX runs and is not what is missing" if ready else " IMEX is of no use there"
    shown = [none, *([box] if box else []), *([ready] if ready else [])]
    return Sharper(
        f"no NVLink joins these hosts{which}: their GPUs are in no NVLink domain over hosts (ClusterUUID is all "
        f"zeros), so memory cannot be shared between them.{well}",
        "run multinode tests of NVLink inside of one host alone (nvbandwidth with the GPUs of one host). Between hosts "
        "use InfiniBand or RoCE: NCCL does so by itself (NCCL_MNNVL_ENABLE=0 to be sure). all_reduce_perf over both "
        "hosts measures it. Only racks such as GB200 NVL72 have NVLinks between hosts: there nvidia-smi -q shows one "
        "ClusterUUID on all",
        tuple(text.evidence(found.start()) for text, found in shown),
    )


def _though_ready(texts: Sequence[Text]) -> Sharper | None:
    """All hosts of the domain are ready in IMEX's own table: then it is set up."""
    up = next(((text, found) for text in texts if (found := _UP.search(text.text))), None)
    ready = [found for text in texts for found in _READY.finditer(text.text)]
    if up is None or not ready or any(_BROKEN.search(text.text) for text in texts):
        return None
    return Sharper(
        "memory cannot be shared over the NVLink domain, though IMEX is ready on all hosts of its list (Domain State: "
        "UP): it is not the service",
        "compare ClusterUUID and CliqueId on all hosts (nvidia-smi -q | grep -A8 Fabric): only GPUs of the same ones "
        "share memory, and nodes_config.cfg has to name all of them. Then give each container the same channel "
        "(/dev/nvidia-caps-imex-channels/channelN), and look for another driver on a host. Until then "
        "NCCL_MNNVL_ENABLE=0",
        (up[0].evidence(up[1].start()),),
    )
