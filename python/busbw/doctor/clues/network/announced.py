"""A clue of an address that leads nowhere, and which is not this host's: the peer told it, and has to change it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_IP = r"\d{1,3}(?:\.\d{1,3}){3}"
_CONNECT = re.compile(
    rf"(?P<host>[A-Za-z][\w.-]{{0,80}}):\d{{1,10}}:\d{{1,10}} \[[^\]\n]{{0,12}}\][^\n]{{0,160}}?"
    rf"\b[Cc]onnect(?:ion)? to (?P<ip>{_IP})(?:<\d{{1,5}}>)?"
)
_OWN = re.compile(
    r"(?P<host>[A-Za-z][\w.-]{0,80}):\d{1,10}:\d{1,10} \[[^\]\n]{0,12}\] NCCL INFO (?:Bootstrap|NET/Socket) ?: ?Using "
    rf"(?:\[\d{{1,2}}\])?(?P<dev>[\w.@-]{{1,40}}):(?P<ip>{_IP})<"
)
_SET = re.compile(r"NCCL_SOCKET_IFNAME(?: set by environment to |=)['\"]?(?P<value>[\w.,^=-]{1,60})")
_RANK = re.compile(r"\brank (?P<rank>\d{1,6}) nranks (?P<of>\d{1,6})\b")
_RAY = re.compile(rf"^\W{{0,2}}\(?[^()\n]{{0,60}}\bip=(?P<ip>{_IP})\)", re.MULTILINE)
_ADDRESS = re.compile(rf"(?<![\d.]){_IP}(?![\d.]\d)")
_MOST = 400


def peer_announced(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A host that has an address of its own connects to one of containers, which only its peer can have told it."""
    # Where some host's own list names the interface, that says it better.
    if not _ADDRESS.search(finding.title) or any(_lists(text, finding) for text in texts):
        return None
    for text in texts:
        calls = [each for each in islice(_CONNECT.finditer(text.text), _MOST) if each["ip"] in _said(finding)]
        own = {each["host"]: each for each in reversed(list(islice(_OWN.finditer(text.text), _MOST)))}
        call = next((each for each in calls if each["host"] in own), None)
        if call is None:
            continue
        host, bad, mine = call["host"], call["ip"], own[call["host"]]
        if mine["ip"] == bad or mine["ip"].startswith(("127.", "169.254.")):
            return None
        who, seen = _peer(texts, mine["ip"], bad)
        value = _SET.search(text.text)
        has = f"NCCL_SOCKET_IFNAME={named(value['value'])} holds on {named(host, 40)} and not there" if value else (
            "it chose another interface there"
        )  # fmt: skip
        rank = _RANK.search(text.text)
        rank_text = f"rank {rank['rank']} on {named(host, 40)}" if rank and len(own) == 1 else named(host, 40)
        name = named(value["value"]) if value and not value["value"].startswith("^") else named(mine["dev"], 30)
        return Sharper(
            f"{bad} is the address that the peer {who}told of itself, and {rank_text} ({mine['ip']}) cannot reach it: "
            f"{has}",
            f"look at {who.strip('() ') or 'the other host'}, not at {named(host, 40)}: set NCCL_SOCKET_IFNAME and "
            f"GLOO_SOCKET_IFNAME in its ranks' own processes (ssh, Ray and Kubernetes pass no variables on: before "
            f"ray start, mpirun -x, the pod's env). The interface with {mine['ip'].rpartition('.')[0]}.x may have "
            f"another name than {name} there (ip -br addr); ^docker,br-,veth,lo fits all. Start the workers anew. A "
            "firewall comes after that",
            (text.evidence(call.start()), text.evidence(mine.start()), *seen),
        )
    return None


def _lists(text: Text, finding: Finding) -> bool:
    """Whether a host says that it uses the address that others cannot reach."""
    found = (each[0] for each in _ADDRESS.finditer(finding.title))
    return any(re.search(rf"Using[^\n]{{0,400}}:{re.escape(each)}<", text.text) for each in found)


def _peer(texts: Sequence[Text], mine: str, bad: str) -> tuple[str, tuple[Evidence, ...]]:
    """The only other address of this host's network in the texts, and its line: Ray's words of workers first."""
    net = mine.rpartition(".")[0] + "."
    for words in (_RAY, _ADDRESS):
        found = {
            address: (text, each.start())
            for text in texts
            for each in islice(words.finditer(text.text), _MOST)
            if (address := each[each.lastgroup] if each.lastgroup else each[0]).startswith(net)
        }
        others = [each for each in found if each not in (mine, bad)]
        if len(others) == 1:
            text, at = found[others[0]]
            return f"({others[0]}) ", (text.evidence(at),)
    return "", ()


def _said(finding: Finding) -> str:
    return "\n".join((finding.title, *(seen.fact for seen in finding.evidence)))
