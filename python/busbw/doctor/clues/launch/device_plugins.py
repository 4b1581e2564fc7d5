"""Clues of device plugins that do not run: what a node then offers none of, and why the plugin ends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from busbw.doctor.clues.launch.pods import pending_pod
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_LACKS = re.compile(r"Insufficient (?P<what>rdma/[\w.-]{1,60}|nvidia\.com/[\w.-]{1,60}|[\w.-]{1,40}/[\w.-]{1,60})")
_ENDS = re.compile(
    r"^\s{0,4}(?:[a-z0-9-]{1,63}\s{1,40})?"
    r"(?P<pod>[a-z0-9-]{0,60}(?:device-plugin|shared-dp|-dp-ds|rdma-shared)[a-z0-9-]{0,60})"
    r"\s{1,40}\d{1,3}/\d{1,3}\s{1,20}(?P<state>CrashLoopBackOff|Error|CreateContainerError|ImagePullBackOff)\b",
    re.MULTILINE,
)
_EXCLUSIVE = re.compile(r"incorrect RDMA subsystem network namespace")
_MODE = re.compile(r"\bnetns exclusive\b|\bib_core\b[^\n]{0,20}\bnetns_mode=(?:0|N)\b")
_FOR = {"rdma": re.compile(r"rdma|sriov|-dp-ds"), "nvidia.com": re.compile(r"nvidia|gpu|sriov|rdma")}


def plugin_that_ends(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The plugin that offers what the pods ask for ends at its start."""
    lacks = next((found for seen in finding.evidence if (found := _LACKS.search(seen.fact))), None)
    if lacks is None:
        return None
    what = named(lacks["what"].rstrip("."))
    words = _FOR.get(lacks["what"].partition("/")[0])
    ended = next(
        ((text, found) for text in texts for found in _ENDS.finditer(text.text)
         if words is None or words.search(found["pod"])), None,
    )  # fmt: skip
    apart = next(((text, found) for text in texts if (found := _EXCLUSIVE.search(text.text))), None)
    mode = next(((text, found) for text in texts if (found := _MODE.search(text.text))), None)
    if apart is not None and what.startswith("rdma/"):
        seen = [text.evidence(found.start()) for text, found in filter(None, (apart, mode))]
        return _with_pods(
            f"nodes offer no {what}, as the plugin that shares RDMA devices ends: the hosts keep them apart by network "
            "namespaces (rdma system: netns exclusive)",
            "on each such node: rdma system set netns shared, while no pod uses RDMA. Remove options ib_core "
            "netns_mode=0 from /etc/modprobe.d, else it is back after a boot. Then delete the plugin's pods, so that "
            "they start again. Where namespaces shall stay apart, take the SR-IOV device plugin and the RDMA CNI",
            Sharper("", "", tuple(seen)),
            (finding, facts, texts),
        )
    if ended is None:
        return None
    text, row = ended
    return _with_pods(
        f"nodes offer no {what}, as their device plugin does not run ({named(row['pod'])}: {row['state']})",
        f"kubectl logs {named(row['pod'])} --previous (and describe) says why it ends: mend that, and the nodes offer "
        f"{what} again (kubectl describe node: Allocatable). More nodes or free GPUs do not help",
        Sharper("", "", (text.evidence(row.start("pod")),)),
        (finding, facts, texts),
    )


def _with_pods(title: str, fix: str, seen: Sharper, given: tuple[Finding, Facts, Sequence[Text]]) -> Sharper:
    """The cause, behind the pods that wait for it."""
    finding, facts, texts = given
    pods = pending_pod(replace(finding, title=title), facts, texts)
    return Sharper(pods.title if pods else title, fix, (*seen.evidence, *(pods.evidence if pods else ())))
