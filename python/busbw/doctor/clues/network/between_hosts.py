"""Clues of networks: a port that answers beside one that does not, MTUs, and links that come and go."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_PEER = re.compile(r"(?P<host>\d{1,3}(?:\.\d{1,3}){3})(?:<|:| port |, ?)(?P<port>\d{2,5})\b")
ANSWERS = re.compile(
    r"\bConnected to (?P<host>[\w.-]{3,60}):(?P<port>\d{1,5})\b"
    r"|\bConnection to (?P<host_>[\w.-]{3,60}) (?:\([\w.:]{3,60}\) )?(?P<port_>\d{1,5}) port "
    r"\[[^\]\n]{1,40}\] succeeded",
    re.MULTILINE,
)
"""As ncat and the nc of OpenBSD say it."""


def other_port_answers(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The peer answers on another port, or to ping, and refuses the one that NCCL chose: a firewall stands there."""
    asked = [found for seen in finding.evidence if (found := _PEER.search(seen.fact))]
    ports = {each["port"] for each in asked}
    for host in dict.fromkeys(each["host"] for each in asked):
        pings = re.compile(rf"^\d{{1,5}} bytes from (?:\S{{1,60}} \()?{re.escape(host)}\b", re.MULTILINE)
        for text in texts:
            said = next((each for each in ANSWERS.finditer(text.text) if _is_other(each, host, ports)), None)
            ping = pings.search(text.text) if finding.name == "no-route" else None
            at = said or ping
            if at is None:
                continue
            by = f"port {said['port'] or said['port_']} is open" if said else "it answers ping"
            return Sharper(
                f"a firewall on {host} lets only some ports through: {by}, and the connection to port "
                f"{', '.join(sorted(ports)[:3])} does not come through",
                f"open all TCP ports between the nodes on {host}, and on the others alike (firewall-cmd --zone=trusted "
                "--add-interface or --add-source, ufw allow from the nodes' network, the cloud's security group). NCCL "
                "listens on ports that the system chooses: one open port is not enough. Else limit "
                "net.ipv4.ip_local_port_range and open that range",
                (text.evidence(at.start()),),
            )
    return None


def _is_other(found: re.Match[str], host: str, ports: set[str]) -> bool:
    return (found["host"] or found["host_"]) == host and (found["port"] or found["port_"]) not in ports


_QP = re.compile(r"NCCL INFO NET/IB[^\n]{0,120}? mtu (?P<mtu>[1-5])\b")
_ACTIVE = re.compile(r"\bactive_mtu:\s{1,12}(?P<mtu>\d{3,4}) \([1-5]\)")
_HOST = re.compile(r"([A-Za-z][\w.-]{0,60}):\d{1,8}:\d{1,8} \[")
_BYTES = {"1": "256", "2": "512", "3": "1024", "4": "2048", "5": "4096"}
_PROMPT = re.compile(
    r"^(?:\[?\w{1,32}@)?(?P<host>[A-Za-z][\w.-]{0,60}?)(?::[^\n$#]{0,60}| [^\n$#]{0,60}\]| [\w/~.-]{1,40})?[$#] ?\S",
    re.MULTILINE,
)
_MOST = 16
"""Listings of commands that are looked at."""


def mtu_differs(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The two sides of a connection have different MTUs."""
    seen: dict[str, dict[str, Evidence]] = {}
    for text in texts:
        for host, mtu, at in _mtus(text):
            seen.setdefault(host, {}).setdefault(mtu, text.evidence(at))
    # NICs of one host may have different MTUs for good reason; a host with one alone tells.
    alone = {host: each for host, each in seen.items() if len(each) == 1}
    values = {next(iter(each)): (host, next(iter(each.values()))) for host, each in alone.items()}
    if len(values) < 2:
        return None
    low, *_, high = sorted(values, key=int)
    return Sharper(
        f"the MTUs of the two sides differ: {high} at {named(values[high][0])}, {low} at {named(values[low][0])}, and "
        "packets larger than the smaller one are refused",
        "give the interfaces of all nodes, and all switch ports between, one MTU (ip link set DEVICE mtu 9000; RoCE "
        "then has 4096, and 1024 with 1500). Then ibv_devinfo shows the same active_mtu everywhere. Some releases of "
        "NCCL (2.20) do not take the smaller of both: a newer one does",
        (values[high][1], values[low][1]),
    )


def _mtus(text: Text) -> Iterator[tuple[str, str, int]]:
    """Host, MTU and place of each line that tells it: of NCCL's queue pairs, and of ibv_devinfo behind a prompt."""
    for found in islice(_QP.finditer(text.text), 1000):
        begin = text.text.rfind("\n", 0, found.start()) + 1
        if host := _HOST.search(text.text, begin, found.start()):
            yield host[1], _BYTES[found["mtu"]], found.start()
    for found in islice(_ACTIVE.finditer(text.text), _MOST):
        asked = max(_PROMPT.finditer(text.text, 0, found.start()), key=lambda each: each.start(), default=None)
        yield (asked["host"] if asked else text.source), found["mtu"], found.start()


_LINK = re.compile(
    r"mlx5_core (?P<bdf>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d):? (?P<dev>[a-z]\w{1,20}): Link (?P<what>down|up)\b"
)
_BDF = re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d\b")
_HCA = re.compile(r"\bhca (?P<hca>mlx5_\w{1,12})\b|\bCA '(?P<hca_>mlx5_\w{1,12})'")
_FEWEST, _NEAR = 2, 2000


def link_flaps(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The link of one NIC went down more than once, and came back."""
    of_finding = {place for seen in finding.evidence for place in _BDF.findall(seen.fact)}
    for text in texts:
        lines: dict[str, list[re.Match[str]]] = {}
        for found in _LINK.finditer(text.text):
            lines.setdefault(found["bdf"], []).append(found)
        for bdf, each in lines.items():
            downs = [found for found in each if found["what"] == "down"]
            if len(downs) < _FEWEST or len(downs) == len(each) or (of_finding and bdf not in of_finding):
                continue
            hot = finding.name == "nic-hot"
            return Sharper(
                f"the link of {_who(text, downs[0])} goes up and down"
                f"{', and its transceiver is too hot' if hot else ''}: its cable or transceiver fails",
                "replace or reseat that cable or transceiver (try another switch port), and take the node out until "
                f"then, or its NIC by NCCL_IB_HCA=^NAME{'; look at the airflow there' if hot else ''}. "
                "NCCL_IB_TIMEOUT=22 and NCCL_IB_RETRY_CNT=7 bridge short gaps alone",
                (text.evidence(downs[0].start()), text.evidence(downs[-1].start())),
            )
    return None


def _who(text: Text, down: re.Match[str]) -> str:
    """The NIC of a line that tells of its link, by all names it has, and its host where that stands in front."""
    hcas = {found["hca"] or found["hca_"] for found in _HCA.finditer(text.text)}
    hca = f"{next(iter(hcas))}, " if len(hcas) == 1 else ""
    front = text.text[max(0, down.start() - 120) : down.start()].rpartition("\n")[2]
    host = re.match(r"(?P<host>[A-Za-z][\w.-]{0,60}): [\[A-Z]", front)
    near = _PROMPT.finditer(text.text, max(0, down.start() - _NEAR), down.start())
    asked = host or max(near, key=lambda each: each.start(), default=None)
    where = f" on {named(asked['host'])}" if asked else ""
    return f"{hca}{down['dev']} ({down['bdf']}){where}"


_MODULE = re.compile(
    r"mlx5_core (?P<bdf>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d):? [^\n]{0,40}?Port module event\[error\]: "
    r"module \d{1,3}, (?P<what>[^\n]{4,80}?)\s*$",
    re.MULTILINE,
)
_INTEGRITY = re.compile(r"^\s{0,4}Recommendation\s{1,30}: (?P<what>[Bb]ad signal integrity)", re.MULTILINE)
_WIDTH = re.compile(r"^\s{0,4}Width\s{1,40}: (?P<what>[12]x)\s*$", re.MULTILINE)
_MLXLINK = re.compile(r"\bmlxlink [^\n]{0,60}?-d (?P<dev>mlx5_\w{1,12}|[\da-f:.]{5,14})\b")
_PORT = re.compile(
    r"^'?(?P<dev>mlx5_\w{1,12})'?:?\s{1,8}State: (?P<state>\w{4,14})|CA '(?P<dev_>mlx5_\w{1,12})'[^\0]{0,400}?\sState: "
    r"(?P<state_>\w{4,14})",
    re.MULTILINE,
)

_BRACKETS = re.compile(r"^\[(?P<host>[A-Za-z][\w.-]{0,60})\] ?[$#>] ?\S", re.MULTILINE)
"""A prompt that shows the host alone."""


def bad_cable(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """What a NIC says of the module in its port, or `mlxlink` of the signal: then no subnet manager is missing."""
    for text in texts:
        module = _MODULE.search(text.text)
        signal = _INTEGRITY.search(text.text)
        if module is None and signal is None:
            continue
        if module is not None and re.search(r"(?i)unplugged|high temp|power budget|unsupported", module["what"]):
            continue
        width = _WIDTH.search(text.text) if signal is not None else None
        why = [each for each in (
            named(module["what"]) if module else "",
            f"width {width['what']}" if width else "",
            named(signal["what"]).lower() if signal else "",
        ) if each]  # fmt: skip
        at = module or signal
        assert at is not None
        states = {each["dev"] or each["dev_"]: each["state"] or each["state_"] for each in _PORT.finditer(text.text)}
        waits = [dev for dev, state in states.items() if state == "Initializing"]
        device = _device(text, waits, module)
        where = _host_of_link(text, at.start())
        others = (
            "; other ports are Active, so that a subnet manager runs" if waits and "Active" in states.values() else ""
        )
        return Sharper(
            f"the link of {device}{where} is bad ({', '.join(why)}): cable, transceiver or port{others}",
            "clean and reseat the cable or transceiver at both ends, then replace it; try another port of the switch "
            "(mlxlink -d DEVICE -m -e -c). Drain that host until then, or leave the port out by NCCL_IB_HCA=^NAME; it "
            "is well when ibstat shows Active at the full rate and no error is counted under load",
            tuple(text.evidence(each.start()) for each in (module, width, signal) if each is not None),
        )
    return None


_COUNTS = re.compile(r"^Errors for \"(?P<host>[A-Za-z][\w.-]{0,60}) (?P<dev>mlx5_\w{1,12})\"", re.MULTILINE)
"""As `ibqueryerrors` begins the counters of a host's port."""
_BY_SSH = re.compile(r"[$#>] ?ssh (?:-\w \S{1,40} |-\w )*(?:[\w.-]{1,32}@)?(?P<host>[A-Za-z][\w.-]{0,60}) \S")


def _host_of_link(text: Text, at: int) -> str:
    """The host whose link it is: that of the fabric's counters, or where the command at the last prompt ran."""
    counted = {each["host"] for each in _COUNTS.finditer(text.text)}
    if len(counted) == 1:
        return f" on {named(counted.pop())}"
    asked = (each for words in (_PROMPT, _BRACKETS) for each in words.finditer(text.text, 0, at))
    near = max(asked, key=lambda each: each.start(), default=None)
    if near is None:
        return ""
    end = text.text.find("\n", near.start())
    away = _BY_SSH.search(text.text, near.start(), end if end >= 0 else len(text.text))
    return f" on {named((away or near)['host'])}"


def _device(text: Text, waits: Sequence[str], module: re.Match[str] | None) -> str:
    """The name of the port that the lines tell of, and its address."""
    asked = _MLXLINK.search(text.text)
    counted = {each["dev"] for each in _COUNTS.finditer(text.text)}
    of_counts = counted.pop() if len(counted) == 1 else ""
    name = waits[0] if len(waits) == 1 else asked["dev"] if asked else of_counts
    bdf = module["bdf"] if module else ""
    return f"{name} ({bdf})" if name and bdf else name or bdf or "an InfiniBand port"
