"""Clues of a store to which more workers come than a job has: nodes that count the ranks differently, and a file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_MEMBER = re.compile(
    r"^\[?(?P<host>[A-Za-z][\w.-]{0,60}?|\d{1,6})\]?: ?[^\n]{0,80}?"
    r"GLOBAL_RANK: (?P<rank>\d{1,6}), MEMBER: \d{1,6}/(?P<of>\d{1,6})\b",
    re.MULTILINE,
)
"""Lightning's word of a rank, with the node or task of the launcher before it."""
_PER_NODE = re.compile(
    r"(?:gpus?|devices|tasks|procs|processes)[ _-](?:per[ _-]node|on[ _-]node)s?\b\W{1,3}"
    r"(?P<counts>\d{1,3}(?:\(x\d{1,4}\))?(?:[ ,]{1,2}\d{1,3}(?:\(x\d{1,4}\))?){1,63})(?![\d.])",
    re.IGNORECASE,
)
"""How many each node was given, as Slurm (2(x2),4) and scripts list it."""
_FILE = re.compile(
    r"(?:init_method|dist[-_]url)\W{1,4}f?[\"']?file://(?P<path>/[^\s\"'{}]{2,200})?|\bFileStore\((?!\))"
)
_MOST, _NAMED = 4096, 4


def worlds_of_nodes(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Nodes multiply the number of nodes by that of their own GPUs, and these differ."""
    members = [(text, found) for text in texts for found in islice(_MEMBER.finditer(text.text), _MOST)]
    hosts: dict[int, dict[str, None]] = {}
    for _, found in members:
        hosts.setdefault(int(found["of"]), {})[found["host"]] = None
    # A second start on the same nodes may well have another size.
    if len(hosts) < 2 or max(Counter(host for each in hosts.values() for host in each).values()) > 1:
        return None
    counts = next(_unequal(texts), None)
    ranks = Counter(rank for _, rank in {(found["host"], int(found["rank"])) for _, found in members})
    twice = sorted(rank for rank, times in ranks.items() if times > 1)
    sizes = "; ".join(f"{size} by {_listed(list(each))}" for size, each in sorted(hosts.items())[:_NAMED])
    why = f", as they were given unequal numbers ({named(counts[1]['counts'])})" if counts else ""
    doubled = f". Ranks that occur twice: {_listed(list(map(str, twice)))}" if twice else ""
    first = {int(found["of"]): text.evidence(found.start()) for text, found in reversed(members)}
    return Sharper(
        f"the nodes count the job's ranks differently ({sizes}){why}. Each multiplies the nodes by its own GPUs"
        f"{doubled}",
        "give all nodes the same number of GPUs and tasks (sbatch --gpus-per-node=N --ntasks-per-node=N, not --gpus "
        "alone), with devices=N in the program. Lightning and accelerate want that; torchrun adds up unequal nodes. No "
        "earlier job is in the way: another MASTER_PORT or more time does not help",
        (*((counts[0].evidence(counts[1].start()),) if counts else ()), *list(first.values())[:3]),
    )


def _unequal(texts: Sequence[Text]) -> Iterator[tuple[Text, re.Match[str]]]:
    for text in texts:
        for found in islice(_PER_NODE.finditer(text.text), _MOST):
            if len(set(re.findall(r"(?<!x)(?<!\d)\d{1,3}", found["counts"]))) > 1:
                yield text, found


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(named(each, 40) for each in names[:_NAMED]) + more


def file_left_over(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The store is a file: it keeps what an earlier start wrote, and no port has a part in it."""
    for text in texts:
        if (found := _FILE.search(text.text)) is None:
            continue
        path = f" {named(found['path'], 80)}" if found["path"] else " of init_method"
        return Sharper(
            f"{finding.title.partition(':')[0]}, and the store is a file (file://): it still holds the workers of an "
            "earlier start",
            f"delete the file{path} before each start, or give it a new name in each (with the job's number), on a "
            "file system that all ranks share. PyTorch removes it only at a clean end. End processes of earlier "
            "starts; MASTER_PORT has no part in it. Or take init_method env://",
            (text.evidence(found.start()),),
        )
    return None
