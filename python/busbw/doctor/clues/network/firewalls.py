"""Clues of firewalls: rules that admit some ports and refuse the rest, and a port that listens and yet refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text

_IP = r"\d{1,3}(?:\.\d{1,3}){3}"
_ASKED = re.compile(rf"(?P<host>{_IP})(?:<|:| port |, ?)(?P<port>\d{{2,5}})\b")
_RULE = re.compile(
    r"^[^\n]{0,60}?-A (?:INPUT|[\w-]{0,24}(?:input|INPUT|IN)[\w-]{0,24}) (?P<save>[^\n]{0,200})$"  # iptables -S
    r"|^[^\n]{0,40}?(?P<verdict>ACCEPT|REJECT|DROP)\s{1,12}(?:tcp|all|6|0)\s{1,6}--\s{1,12}(?P<list>[^\n]{0,200})$"
    r"|^\s{0,24}(?P<nft>(?:(?:ip6?|tcp|ct|iif\w{0,4}|meta|counter) [^\n]{0,160})?"
    r"\b(?P<nft_verdict>accept|drop|reject(?: with [\w -]{1,40})?))\s{0,4}$",
    re.MULTILINE,
)
_CHAIN = re.compile(r"^Chain (?P<name>[\w-]{1,60}) \(", re.MULTILINE)
_HOOK = "hook input"
"""In a list of nft, whose words alone may be anything."""
_JUMP = re.compile(r"-j (ACCEPT|REJECT|DROP)\b")
_PORTS = re.compile(r"(?:--dports? |\bdpts?:|\bdports |\bdport )(?P<ports>\{[\d, -]{1,200}\}|[\d,:-]{1,200})")
_SOURCE = re.compile(rf"(?:-s |saddr |^)(?P<net>{_IP}(?:/\d{{1,2}})?)(?=\s)")
_NARROW = re.compile(
    r"-m (?:state|conntrack)|ctstate|ct state|state RELATED|-i \S|iif\w{0,4} |^lo\s|-d \S|\budp\b|(?<!with )icmp(?!-)"
)
"""Rules of connections that stand already, or of one interface: they tell nothing of a new one."""
_POLICY = re.compile(
    r"^[^\n]{0,60}?(?:-P INPUT |Chain INPUT \(policy |\bhook input [^\n]{0,60}policy )(?P<verdict>DROP|REJECT|drop)\b",
    re.MULTILINE,
)
_LISTENS = re.compile(
    rf"\bLISTEN\s{{1,12}}\d{{1,6}}\s{{1,12}}\d{{1,6}}\s{{1,12}}(?P<ss>{_IP}|\*|\[::\]):(?P<ss_port>\d{{2,5}})\b"
    rf"|^tcp6?\s{{1,8}}\d{{1,6}}\s{{1,8}}\d{{1,6}}\s{{1,8}}(?P<net>{_IP}|::):(?P<net_port>\d{{2,5}})\b"
    r"[^\n]{1,60}\bLISTEN\b",
    re.MULTILINE,
)
_UFW = re.compile(r"^\W{0,4}Status: active\b", re.MULTILINE)
_UFW_RULE = re.compile(
    r"^\s{0,4}(?:\[ ?\d{1,3}\] )?(?P<to>Anywhere|\d{1,5}(?::\d{1,5})?)(?:/(?P<proto>tcp|udp))?"
    r"(?: on (?P<dev>\S{1,20}))?\s{2,40}(?P<verdict>ALLOW|DENY|REJECT|LIMIT)(?: IN)?\s{2,20}"
    rf"(?P<from>Anywhere|{_IP}(?:/\d{{1,2}})?)\b",
    re.MULTILINE,
)
_UFW_DEFAULT = re.compile(r"^\W{0,4}Default: (?P<verdict>deny|reject|allow) \(incoming\)", re.MULTILINE)
_MOST = 200
_BARS = {"connection-timeout": ("DROP",), "no-route": ("REJECT",), "connection-refused": ("REJECT",)}
"""What a new connection meets where it fails so: one that is dropped gets no answer."""
_GAVE_UP = "Software caused connection abort"
"""What NCCL returns after it tried in vain, whatever each try met."""
_OPEN = (
    "let all TCP ports through between the nodes, by their network, on all of them: iptables -I INPUT -s NETWORK -j "
    "ACCEPT (firewall-cmd --zone=trusted --add-source=NETWORK, ufw allow from NETWORK). NCCL listens on ports that the "
    "system chooses. Else limit net.ipv4.ip_local_port_range to the ports that are open"
)


@dataclass(frozen=True, slots=True)
class _Rule:
    verdict: str
    ports: tuple[tuple[int, int], ...]
    at: Evidence


def refused_by_rules(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Rules of a listing refuse the port of the error, or that port listens all the while."""
    bars: tuple[str, ...] = _BARS.get(finding.name, ("REJECT",))
    if all(_GAVE_UP in seen.fact for seen in finding.evidence if seen.line):
        bars = ("DROP", "REJECT")
    asked = [found for seen in finding.evidence if (found := _ASKED.search(seen.fact))]
    for host, port, by_nccl in dict.fromkeys((each["host"], int(each["port"]), "<" in each[0]) for each in asked):
        listens = _listens(texts, host, port)
        rules = [rule for text in texts for rule in _rules(text, host)]
        barred = _barred(rules, port)
        if barred is not None and barred.verdict not in bars:
            barred = None
        seen = tuple(each for each in (listens, barred.at if barred else None) if each is not None)
        if barred is not None:
            spans = [span for rule in rules if rule.verdict == "ACCEPT" for span in rule.ports]
            only = f" lets only ports {', '.join(map(_span, spans[:4]))} through, and" if spans else ""
            does = "refuses" if barred.verdict == "REJECT" else "drops"
            there = ", at which the process listens," if listens else ""
            return Sharper(f"a firewall on {host}{only} {does} NCCL's port {port}{there} as all others", _OPEN, seen)
        # A port that a user chose may have been opened later; NCCL's own is that of the process which listens there.
        if listens is not None and by_nccl and finding.name == "connection-refused":
            return Sharper(
                f"port {port} of {host} listens, so that the process is there, and others are refused: a firewall that "
                "rejects, or an address that means another host for them",
                f"{_OPEN}. See the rules: iptables -S, nft list ruleset. Where none refuses, that address leads "
                "elsewhere from the peer (ip route get, arp): NCCL_SOCKET_IFNAME",
                seen,
            )
    return None


def _barred(rules: Sequence[_Rule], port: int) -> _Rule | None:
    """The rule that refuses a new connection to the port: the first that speaks of it; None where it is let through."""
    for rule in rules:
        if not rule.ports or any(first <= port <= last for first, last in rule.ports):
            return rule if rule.verdict != "ACCEPT" else None
    return None


def _rules(text: Text, host: str) -> Iterator[_Rule]:
    """Rules that speak of new TCP connections to that host, in their order; last the policy of the chain."""
    chains = [(found.start(), found["name"]) for found in _CHAIN.finditer(text.text)]
    for found in islice(_RULE.finditer(text.text), _MOST):
        said = found["save"] or found["list"] or found["nft"]
        jump = _JUMP.search(said) if found["save"] else None
        word = jump[1] if jump else found["verdict"] or (found["nft_verdict"] or "").partition(" ")[0].upper()
        chain = next((name for at, name in reversed(chains) if at < found.start()), "INPUT")
        if not word or _NARROW.search(said) or (found["nft"] and _HOOK not in text.text):
            continue
        if found["list"] and "IN" not in chain.upper():
            continue
        ports = _PORTS.search(said)
        source = _SOURCE.search(said)
        if source and source["net"] not in ("0.0.0.0/0", "0.0.0.0") and not _is_near(host, source["net"]):
            continue
        spans = tuple(_spans(ports["ports"])) if ports else ()
        yield _Rule(word, spans, text.evidence(found.start()))
    yield from _of_ufw(text, host)
    if (policy := _POLICY.search(text.text)) is not None:
        yield _Rule(policy["verdict"].upper(), (), text.evidence(policy.start()))


def _of_ufw(text: Text, host: str) -> Iterator[_Rule]:
    """Rules of ufw, where it is active, in their order; last what it does with all else."""
    if (active := _UFW.search(text.text)) is None:
        return
    for found in islice(_UFW_RULE.finditer(text.text, active.end()), _MOST):
        near = found["from"] == "Anywhere" or _is_near(host, found["from"])
        if found["proto"] == "udp" or found["dev"] or not near:
            continue
        word = {"DENY": "DROP", "LIMIT": "ACCEPT", "ALLOW": "ACCEPT"}.get(found["verdict"], found["verdict"])
        spans = tuple(_spans(found["to"])) if found["to"] != "Anywhere" else ()
        yield _Rule(word, spans, text.evidence(found.start("to")))
    default = _UFW_DEFAULT.search(text.text)
    word = default["verdict"] if default else "deny"
    if word != "allow":
        yield _Rule("REJECT" if word == "reject" else "DROP", (), text.evidence(active.end()))


def _is_near(host: str, net: str) -> bool:
    """Whether a rule for that network may be one for the nodes of the job: they mostly share one."""
    try:
        given = ip_network(net, strict=False)
        return ip_address(host) in given or given.subnet_of(ip_network(f"{host}/24", strict=False))  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return True


def _spans(ports: str) -> Iterator[tuple[int, int]]:
    for each in re.findall(r"(\d{1,5})(?:[:-](\d{1,5}))?", ports):
        yield int(each[0]), int(each[1] or each[0])


def _span(span: tuple[int, int]) -> str:
    return str(span[0]) if span[0] == span[1] else f"{span[0]}-{span[1]}"


def _listens(texts: Sequence[Text], host: str, port: int) -> Evidence | None:
    """The line that shows that the port listens for others on that host."""
    for text in texts:
        for found in _LISTENS.finditer(text.text):
            if int(found["ss_port"] or found["net_port"]) != port:
                continue
            if (found["ss"] or found["net"]) in (host, "0.0.0.0", "*", "[::]", "::"):
                return text.evidence(found.start())
    return None
