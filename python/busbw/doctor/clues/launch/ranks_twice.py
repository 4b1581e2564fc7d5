"""A clue of nodes that were all started as the same one: their own lines list the same ranks on each of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_MOST = 4000
_RANK = re.compile(
    r"^(?P<front>[^\n]{0,160}?)(?<![a-z_])(?:global[ _])?rank[ =:]{1,3}(?P<rank>\d{1,5})\b(?P<rest>[^\n]{0,300})$",
    re.MULTILINE | re.IGNORECASE,
)
"""A line in which a rank names itself."""
_WORLD = re.compile(
    r"^ ?(?:/|of) ?(?P<of>\d{1,6})\b|\b(?:world(?:[ _]?size)?|n_?ranks)[ =:]{1,3}(?P<world>\d{1,6})\b", re.IGNORECASE
)
_LOCAL = re.compile(r"\blocal[ _]?rank[ =:]{1,3}(?P<local>\d{1,4})\b", re.IGNORECASE)
_HOST = re.compile(
    r"^(?P<front>[A-Za-z][\w.-]{0,60}): |\b(?:host(?:name)?|node)(?:=|: ?| )(?P<said>[A-Za-z][\w.-]{0,60})(?![\w.=:-])"
    r"|\bon (?:host |node )?"
    r"(?P<on>(?!GPU|gpu|cuda|CUDA|device|port|rank)[A-Za-z](?=[\w.-]{0,60}\d)[\w.-]{0,60})(?![\w.=:-])"
)
"""The host of a line, as pdsh and ssh loops put it in front, or as the line says it."""
_OF_PART = re.compile(
    r"NCCL INFO|\b(?:[tdpecsm]p|local|node|machine|group|stage|parallel|data|tensor|pipeline|model|expert)[ _-]?$",
    re.IGNORECASE,
)
"""What stands in front of a rank that is none of the whole job."""
_GIVEN = re.compile(r"--(?:node|machine)[_-]rank[ =][\"']?\$\{?(?P<name>[A-Za-z_]\w{1,40})")
_OF_SRUN = frozenset({"SLURM_NODEID", "SLURM_PROCID"})
_FEWEST = 2


def ranks_on_two_hosts(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Two hosts list the same ranks of one world, and nobody lists the others."""
    worlds: dict[int, dict[str, dict[int, Evidence]]] = defaultdict(dict)
    for text in texts:
        for host, rank, world, at in _ranks(text):
            worlds[world].setdefault(host, {}).setdefault(rank, text.evidence(at))
    for world, hosts in worlds.items():
        ranks = {host: set(each) for host, each in hosts.items()}
        alike = [host for host in ranks if sum(ranks[host] == other for other in ranks.values()) > 1]
        listed = set[int]().union(*ranks.values())
        # Where all ranks are there, hosts changed their places: launchers do so when they start anew.
        if len(alike) < 2 or len(listed) >= world or world < _FEWEST:
            continue
        same = sorted(ranks[alike[0]])
        if [host for host in ranks if ranks[host] != ranks[alike[0]] and ranks[host] & set(same)]:
            continue
        who = f"rank{'s' if len(same) > 1 else ''} {_span(same)}"
        absent = _span(sorted(set(range(min(world, 100_000))) - listed))
        names = " and on ".join(named(host, 40) for host in alike[:2])
        name, by, seen = _given(texts)
        return Sharper(
            f"nodes were started with the same node rank{by}: {who} of {world} are on {names}, and nobody is rank "
            f"{absent}",
            f"give each node its own number: 0 on {named(alike[0], 40)} (the node of MASTER_ADDR), 1 on "
            f"{named(alike[1], 40)} (torchrun --node_rank, accelerate --machine_rank){name}. Port, firewall and longer "
            "timeouts have no part in it",
            (hosts[alike[0]][same[0]], hosts[alike[1]][same[0]], *seen),
        )
    return None


def _given(texts: Sequence[Text]) -> tuple[str, str, tuple[Evidence, ...]]:
    """What to say of the variable that the number is taken from, in cure and title, and its line."""
    found = next(((text, each) for text in texts if (each := _GIVEN.search(text.text))), None)
    if found is None:
        return "", "", ()
    name = named(found[1]["name"], 40)
    seen = (found[0].evidence(found[1].start()),)
    if name in _OF_SRUN:
        return (
            f". Or start with srun, one task per node: ${name} is set in tasks of srun alone, and not by ssh or pdsh",
            f" (${name}, which is the same on both)",
            seen,
        )
    return f". Look what ${name} is on each", f" (${name}, which is the same on both)", seen


def _ranks(text: Text) -> Iterator[tuple[str, int, int, int]]:
    """Host, rank, size of the world, and place of each line in which a rank names itself."""
    for found in islice(_RANK.finditer(text.text), _MOST):
        world = _WORLD.search(found["rest"])
        if world is None or _OF_PART.search(found["front"]):
            continue
        size, rank = int(world["of"] or world["world"]), int(found["rank"])
        at = _HOST.match(found[0]) or _HOST.search(f"{found['front']}{found['rest']}")
        local = _LOCAL.search(found[0])
        if at is None or rank >= size or (local is not None and int(local["local"]) > rank):
            continue
        yield at["front"] or at["said"] or at["on"], rank, size, found.start("rank")


def _span(ranks: Sequence[int]) -> str:
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"{ranks[0]} to {ranks[-1]}"
    return ", ".join(map(str, ranks[:8])) + (" ..." if len(ranks) > 8 else "")
