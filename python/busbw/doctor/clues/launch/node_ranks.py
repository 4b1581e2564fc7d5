"""Clues of nodes that were all started as the same one: what was typed, evaluated, and what the launcher got."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_MOST = 400
_LAUNCHER = r"(?:torchrun|torch\.distributed\.(?:run|launch)|accelerate|deepspeed|composer|sglang|vllm|launch)"
_OPTION = r"--(?:node[_-]rank|machine[_-]rank|group[_-]rank)"
_GIVEN = re.compile(
    rf"^(?P<front>[^\n]{{0,300}}?\b{_LAUNCHER}\b[^\n]{{0,400}}?){_OPTION}"
    r"(?:'?, ?'|\"?, ?\"|[= ]{1,2})(?P<rank>\d{1,4})\b",
    re.MULTILINE,
)
"""A launcher's words with the number of its node, as a shell has them or as Python shows a list of them."""
_SHOWN = re.compile(
    r"CalledProcessError|\bCommand '?\[|\bcmd ?[=:] ?|\brun sh: |[Cc]ommand: "
    r"|\b(?:[Rr]unning|[Ee]xecuting|[Ll]aunching) "
)
"""Words in front of a command that a program has made, and no user typed."""
_SET = re.compile(
    r"(?<![\w$.{-])(?P<name>RANK|NODE_RANK|MACHINE_RANK|GROUP_RANK|PET_NODE_RANK|SLURM_NODEID|NODE_ID|NODE_INDEX)="
    r"[\"']?(?P<value>\d{1,4})\b"
)
_TYPED = re.compile(
    r"^(?P<front>[^\n]{0,300}?)(?<![\w$.{-])(?:NODE_RANK|MACHINE_RANK|PET_NODE_RANK)=[\"']?(?P<rank>\d{1,4})\b[\"']? "
    r"[^\n]{3,600}$",
    re.MULTILINE,
)
"""The same by a variable in front of a command."""
_NODES = re.compile(
    r"--(?:nnodes|num[_-]machines)(?:'?, ?'|\"?, ?\"|[= ]{1,2})(?P<n>\d{1,5})\b|\bNNODES=(?P<n_>\d{1,5})\b"
)
_PROMPT = re.compile(
    r"^\W{0,3}(?:\([\w.-]{1,40}\) ?)?(?:[\w.-]{1,40}@(?P<host>[A-Za-z][\w.-]{0,60})[^\n$#%>=]{0,80}"
    r"|(?P<bare>[A-Za-z][\w.-]{0,60})(?::[^\s$#%>=]{0,60})?)[$#%>] ?"
)
_OWN = re.compile(r"SocketImpl\(fd=\d{1,5}, addr=\[?(?P<ip>[0-9a-f.:]{6,45}?)\]?:\d{1,5}, remote=")
_BY_MEETING = re.compile(r"rdzv[_-]backend(?:'?, ?'|[= ]{1,2})[\"']?c10d\b")
"""The backend that numbers the nodes as they come: what is given counts for nothing."""
_CURE = (
    "give each node its own number: 0 on the node of MASTER_ADDR, then 1 to nnodes - 1 ({by}). Port, firewall and "
    "longer timeouts have no part in it"
)


@dataclass(frozen=True, slots=True)
class _Start:
    """A launcher with the number of its node, and the host at whose prompt it stands."""

    rank: int
    made: bool
    host: str
    evidence: Evidence


def nodes_alike(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """All launchers of a job of several nodes got the same number of a node."""
    if any(_BY_MEETING.search(text.text) for text in texts):
        return None
    nodes = [int(found["n"] or found["n_"]) for text in texts for found in islice(_NODES.finditer(text.text), _MOST)]
    if max(nodes, default=0) < 2:
        return None
    starts = [start for text in texts for start in _starts(text)]
    return _not_read(starts, texts, max(nodes)) or _same_on_two(starts, texts)


def _starts(text: Text) -> list[_Start]:
    found = []
    for each in islice(_GIVEN.finditer(text.text), _MOST):
        prompt = _PROMPT.match(each["front"])
        made = _SHOWN.search(each["front"]) is not None
        found.append(_Start(int(each["rank"]), made, "" if made else _host(prompt), text.evidence(each.start("rank"))))
    for each in islice(_TYPED.finditer(text.text), _MOST):
        if (prompt := _PROMPT.match(each["front"])) is not None:
            found.append(_Start(int(each["rank"]), False, _host(prompt), text.evidence(each.start("rank"))))
    return found


def _host(prompt: re.Match[str] | None) -> str:
    return (prompt["host"] or prompt["bare"]) if prompt is not None else ""


def _not_read(starts: Sequence[_Start], texts: Sequence[Text], nodes: int) -> Sharper | None:
    """Variables give nodes different numbers, and all launchers that a program made have 0."""
    made = [start for start in starts if start.made]
    asked: dict[str, dict[int, Evidence]] = {}
    for text in texts:
        for found in islice(_SET.finditer(text.text), _MOST):
            line = text.evidence(found.start())
            # A rank that tells of itself knows its number on its node, too.
            if "LOCAL_RANK" not in line.fact:
                asked.setdefault(found["name"], {}).setdefault(int(found["value"]), line)
    for name, values in asked.items():
        if not made or any(start.rank for start in made) or not 0 < max(values) < nodes:
            continue
        # Of one launch alone it may be node 0's own.
        if len(made) < 2 and 0 in values:
            continue
        use = "the option or variable that this program reads (NODE_RANK, --node_rank, --machine_rank)"
        use = "NODE_RANK=1 in place of RANK=1 for programs that call torchrun" if name == "RANK" else use
        return Sharper(
            f"nodes were all started as node 0: {name}={max(values)} is set, and the launcher still got node rank 0, "
            "as the program that calls it does not read that variable. The nodes wait for one that never comes",
            _CURE.format(by=f"here by {use}; the command that the program shows must then differ between nodes"),
            (made[0].evidence, values[max(values)], *(start.evidence for start in made[1:2])),
        )
    return None


def _same_on_two(starts: Sequence[_Start], texts: Sequence[Text]) -> Sharper | None:
    """Two hosts were started with the same number."""
    for rank in sorted({start.rank for start in starts}):
        if any(start.rank != rank for start in starts):
            return None
        alike = list({start.host: start for start in starts if start.host}.values())
        if len(alike) < 2:
            made = {start.evidence: start for start in starts if start.made}
            own = {found["ip"] for text in texts for found in islice(_OWN.finditer(text.text), _MOST)}
            alike = list(made.values()) if len(own) > 1 else []
        if len(alike) > 1:
            where = " and ".join(named(start.host, 40) for start in alike[:2] if start.host)
            return Sharper(
                f"nodes were started with the same node rank ({rank}){f': {where}' if where else ''}, so that one that "
                "the job waits for never comes",
                _CURE.format(by="--node-rank 1 on the second, accelerate --machine_rank 1"),
                tuple(start.evidence for start in alike[:2]),
            )
    return None


_IN_SCRIPT = re.compile(
    r"^\s{0,12}(?:export |declare -x )?(?P<name>[A-Za-z_]\w{1,40})="
    r"[\"']?\$\{?(?P<of>SLURM_(?:PROCID|NODEID|LOCALID))\}?[\"']?\s*$",
    re.MULTILINE,
)
_AT_SRUN = re.compile(r"^(?P<front>[^\n#]{0,300}?)\$\{?(?P<of>SLURM_(?:PROCID|NODEID))\}?", re.MULTILINE)
_SHELL = re.compile(r"\b(?:ba|z|da)?sh -l?i?c\b|'[^'\n]{0,200}$")


def number_of_batch(text: Text) -> tuple[str, Evidence] | None:
    """The variable that a batch script evaluates itself, and its line: there it is that of the first task, 0."""
    if (batch := text.text.find("#SBATCH")) < 0:
        return None
    plain = re.sub(r"\\\n[ \t]{0,40}", lambda found: " " * len(found[0]), text.text)  # places stay
    for found in islice(_IN_SCRIPT.finditer(plain, batch), _MOST):
        run = plain.find("srun ", found.end())
        if run > 0 and re.search(rf"\$\{{?{found['name']}\b", plain[found.end() :]):
            return found["of"], text.evidence(found.start("name"))
    for found in islice(_AT_SRUN.finditer(plain, batch), _MOST):
        front = found["front"]
        if re.search(r"\bsrun\b", front) and re.search(_OPTION, front) and not _SHELL.search(front):
            return found["of"], text.evidence(found.start("of"))
    return None


def evaluated_in_batch(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The batch script evaluates the number of a node, before srun has any task."""
    for text in texts:
        said = number_of_batch(text)
        if said is None or _BY_MEETING.search(text.text):
            continue
        return Sharper(
            f"all nodes were started as node 0: the batch script evaluates ${said[0]} itself, where it is 0, before "
            "srun starts any task",
            "let each task evaluate it: srun bash -c 'torchrun --node_rank=$SLURM_NODEID ...' in single quotes, or a "
            "script of its own that srun starts. Or --rdzv-backend=c10d with --rdzv-endpoint, which needs no node "
            "rank. Port and firewall have no part in it",
            (said[1],),
        )
    return None
