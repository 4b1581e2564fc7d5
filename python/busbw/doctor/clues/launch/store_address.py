"""Clues of the address at which ranks look for rank 0's store: none of a host, another one, or served by nobody."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_IP = r"\d{1,3}(?:\.\d{1,3}){3}(?![\d.]*\d)"
_TRIED = re.compile(
    rf"(?:\b(?:to(?: connect to)?|connect(?:ing|ion)? to|address of) |\bremote=)[\[(]?(?:::ffff:)?"
    rf"(?P<at>{_IP}|localhost|::1)\]?(?:, ?|:)(?P<port>\d{{2,5}})\b"
)
"""How torch names the store that it tries, in all its releases."""
_SET = re.compile(
    rf"(?<![\w#])(?P<name>MASTER_(?:ADDR|IP)|HEAD_NODE_IP)['\"]?\]?(?:=| = |: )['\"]?(?P<a>{_IP})"
    rf"|(?P<option>--master[-_]addr(?:ess)?)[ =](?P<b>{_IP})|\b(?P<key>main_process_ip)['\"]?[:=] ?['\"]?(?P<c>{_IP})"
)
_ONE_NODE = re.compile(r"\bNNODES['\"]?=['\"]?1\b|--n?nodes[ =]1(?![\d:])|\bnum_machines['\"]?[:=] ?1\b|--standalone\b")
_SEVERAL = re.compile(
    r"\b(?:n?nodes|num_nodes|num_machines|NNODES)['\"]?[ =:]{1,3}['\"]?(?:[2-9]|\d{2,5})\b|--node[-_]rank[ =][1-9]"
    r"|\b(?:[2-9]|two|four|eight|both|several|multiple) (?:\w{1,12} )?(?:nodes|hosts|machines|servers)\b"
    r"|\bsrun [^\n]{0,200}(?:-N|--nodes)[ =]?(?:[2-9]|\d\d)",
    re.IGNORECASE,
)
_LOOP = re.compile(r"127\.\d{1,3}\.\d{1,3}\.\d{1,3}$|localhost$|::1$")
_TIME_OUT = re.compile(r"\btimed? ?out\b|errno: 110\b", re.IGNORECASE)


def no_host_address(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Ranks try a netmask, or an address that no host may have, or another one than the script sets."""
    tried = dict.fromkeys(at for at, _ in _tried(finding))
    given = [(text, found) for text in texts for found in _SET.finditer(text.text)]
    wanted = {found["a"] or found["b"] or found["c"]: (text, found) for text, found in given}
    bad = next((at for at in tried if _kind(at)), None)
    if bad is None:
        return _other_than_set(tuple(tried), wanted, texts)
    other = next((each for each in wanted if each != bad), None)
    beside = f", and not {_name(wanted[other][1])}={other}, which the script sets" if other else ""
    where = (
        "all ranks are on one host: MASTER_ADDR=127.0.0.1, or torchrun --standalone"
        if _said(_ONE_NODE, texts) and not _said(_SEVERAL, texts)
        else "set MASTER_ADDR to the first node's address in the network between the nodes, alike on all"
    )
    return Sharper(
        f"ranks look for rank 0's store at {bad}, which is {_kind(bad)} and no host's address{beside}",
        f"{where}. See where the value comes from: env | grep MASTER_ within the job, and getent hosts NAME where a "
        "name is given (/etc/hosts, DNS). Firewall and port are not at fault",
        (wanted[other][0].evidence(wanted[other][1].start()),) if other else (),
    )


def _other_than_set(
    tried: Sequence[str], wanted: dict[str, tuple[Text, re.Match[str]]], texts: Sequence[Text]
) -> Sharper | None:
    """One address is set, and another one tried; of a rendezvous the agent gives ranks an address of its own."""
    if len(wanted) != 1 or not tried or set(tried) & wanted.keys() or _said(re.compile(r"rdzv"), texts):
        return None
    ((address, (text, found)),) = wanted.items()
    if not re.fullmatch(_IP, tried[0]) or _LOOP.search(address):
        return None
    name = _name(found)
    return Sharper(
        f"ranks look for rank 0's store at {named(tried[0])}, and not at {name}={address}, which the script sets",
        f"see what each rank gets: env | grep MASTER_ in the job itself. A line without export reaches no rank; a "
        f"config file, an image or an operator may set another one later. Give {address} to all ranks alike, and the "
        "same port. A firewall is not the first suspect",
        (text.evidence(found.start()),),
    )


def _kind(at: str) -> str:
    """What an address is that no host may have; nothing for one that a host may have."""
    parts = at.split(".")
    if len(parts) != 4 or not all(each.isdecimal() and int(each) < 256 for each in parts):
        return ""
    bits = "".join(f"{int(each):08b}" for each in parts)
    if bits.startswith("11111111") and "01" not in bits:
        return "a netmask"
    if 224 <= int(parts[0]) < 240:
        return "a multicast address"
    return "a reserved address" if int(parts[0]) >= 240 else ""


def _name(found: re.Match[str]) -> str:
    return found["name"] or found["option"] or found["key"]


def _tried(finding: Finding) -> Iterator[tuple[str, str]]:
    for seen in finding.evidence:
        for found in _TRIED.finditer(seen.fact):
            yield found["at"], found["port"]


def _said(words: re.Pattern[str], texts: Sequence[Text]) -> bool:
    return any(words.search(text.text) for text in texts)


def served_by_nobody(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The host whose address it is waits for the store as well: then no process of it has opened one."""
    at = next(iter(_waited(finding, texts)), None)
    if at is None:
        return None
    if _LOOP.search(at[0]):
        return None if _said(_SEVERAL, texts) else _on_loopback(at)
    own = _own(at[0], texts)
    if own is None or not _said(_OF_RENDEZVOUS, texts):
        return None
    where = f"{at[0]}:{at[1]}"
    return Sharper(
        f"nobody serves the rendezvous store at {where}: the host that has this address waits for it as well, so no "
        "node took itself for the first one",
        f"torchrun serves it where it knows the endpoint as its own. Give --rdzv-endpoint the first node's name as "
        "`hostname` prints it. Or --rdzv-conf=is_host=true there and is_host=false on the others. Or without it: "
        f"--master-addr={at[0]}, --master-port and --node-rank. A newer torch compares all addresses of the host. "
        "More time does not help; NCCL has no part in it",
        (own,),
    )


def _waited(finding: Finding, texts: Sequence[Text]) -> Iterator[tuple[str, str]]:
    """What was tried until the time was over; of a rendezvous the line itself may stand in the log alone."""
    facts = [seen.fact for seen in finding.evidence]
    if any(_OF_RENDEZVOUS.search(fact) for fact in facts):
        facts += [found[0] for text in texts for found in _CLIENT.finditer(text.text)]
    for fact in facts:
        if _TIME_OUT.search(fact):
            yield from ((found["at"], found["port"]) for found in _TRIED.finditer(fact))
    if any(_OF_RENDEZVOUS.search(fact) for fact in facts) and any(map(_TIME_OUT.search, facts)):
        for text in texts:
            yield from ((found["at"], found["port"] or _DEFAULT_PORT) for found in _ENDPOINT.finditer(text.text))


_ENDPOINT = re.compile(rf"\brdzv_endpoint\s{{0,12}}[:=] ?['\"]?(?P<at>{_IP})(?::(?P<port>\d{{2,5}}))?(?![\w.])")
"""What torchrun says of itself: of old releases no other line tells which store was tried."""
_DEFAULT_PORT = "29400"
_CLIENT = re.compile(r"client socket has timed out[^\n]{0,200}")
_OF_RENDEZVOUS = re.compile(r"c10d_rendezvous_backend|RendezvousConnectionError|[Cc]10d store has failed")
_ALIKE = re.compile(
    r"\b(?:both|all|every|each)\b[^\n]{0,40}\b(?:(?:the )?same (?:way|error|message|output|thing|result|trace)"
    r"|(?:end|fail|die|stop|tim)\w{0,3} (?:alike|the same|out|with this)"
    r"|(?:show|print|give|say|report)s? (?:this|the same))"
    r"|\b(?:same|this) (?:error|message|output|thing|trace)\b[^\n]{0,30}\bon (?:both|all|every|each)\b",
    re.IGNORECASE,
)


def _own(at: str, texts: Sequence[Text]) -> Evidence | None:
    """Where it is told that the host of that address fails alike: by its list of addresses, or by who writes."""
    listed = re.compile(
        rf"\binet {re.escape(at)}/\d|^\S{{0,60}}[$#] ?hostname -I\s*\n[^\n]{{0,200}}\b{re.escape(at)}\b", re.M
    )
    for words in (listed, _ALIKE):
        for text in texts:
            if (found := words.search(text.text)) is not None:
                return text.evidence(found.start())
    return None


def _on_loopback(at: tuple[str, str]) -> Sharper:
    return Sharper(
        f"nobody serves rank 0's store on this very host ({at[0]}:{at[1]}): rank 0 did not start, ended before, or is "
        "busy with something else",
        "look at rank 0 (local rank 0) first: its own traceback, or what it does before init_process_group "
        "(downloads, data, another port). Let one launcher start all ranks: torchrun --standalone --nproc-per-node=N. "
        f"Take a free port, and end what is left of earlier runs (ss -ltnp | grep {at[1]}, ps). The address is right "
        "on one host, and no firewall stands between",
    )
