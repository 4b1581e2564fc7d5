"""An interface that NCCL lists behind a sound one, in a job on one host: nothing of it has to reach another host."""

from __future__ import annotations

import re
from dataclasses import replace

from busbw.doctor.clues.network.one_host import on_one_host
from busbw.doctor.facts import Facts
from busbw.doctor.lines.hit import Hit
from busbw.doctor.shown_texts import texts_of

_NAME = "wrong-interface"
_LISTS = re.compile(r"NET/Socket ?: Using \[0\](?P<first>[\w.-]{1,30}):.{3,200}?\[[1-9]\d?\]")
_BOOT = re.compile(r"\bBootstrap ?: ?Using (?:\[0\])?(?P<name>[\w.-]{1,30}):")


def without_listed(facts: Facts) -> Facts:
    """The facts; without interfaces that are listed alone, where all ranks are on one host and met over another."""
    hits = [hit for scan in facts.scans if (hit := scan.hits.get(_NAME)) is not None]
    if not hits or not all(map(_is_listed, hits)):
        return facts
    texts = texts_of(facts)
    listed = {each["interface"] for hit in hits for each in map(dict, hit.groups) if "interface" in each}
    boots = {found["name"] for text in texts for found in _BOOT.finditer(text.text)}
    if not boots or boots & listed or not (facts.ran_on_one_node or on_one_host(facts, texts) is not None):
        return facts
    scans = tuple(
        replace(scan, hits={name: hit for name, hit in scan.hits.items() if name != _NAME}) for scan in facts.scans
    )
    return replace(facts, scans=scans)


def _is_listed(hit: Hit) -> bool:
    """Whether each line that is kept of it is a list of NCCL's in which another interface is the first."""
    named = {each["interface"] for each in map(dict, hit.groups) if "interface" in each}
    lists = [_LISTS.search(line) for _, line in hit.lines]
    return bool(lists) and all(each is not None and each["first"] not in named for each in lists)
