"""Clues of interfaces: a name that the host's own listing lacks, and Gloo's variable that one of several shells has."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.conf_files import in_files
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_BRIEF = re.compile(
    r"^(?P<name>[a-z][\w.-]{0,20}?)(?:@\S{1,20})? {2,30}(?P<state>UP|DOWN|UNKNOWN)(?: |$)"
    r"(?:[ \t]{0,20}(?P<ip>\d{1,3}(?:\.\d{1,3}){3})/)?",
    re.MULTILINE,
)
_LONG = re.compile(r"^\d{1,4}: (?P<name>[a-z][\w.-]{0,20}?)(?:@\S{1,20})?: <[A-Z_,-]{2,100}>", re.MULTILINE)
_OF_CLASS = re.compile(
    r"^[^\n]{0,120}[#$>] ?ls (?:-1 )?/sys/class/net/?[ \t]*\n(?P<names>(?:[a-z][\w.@-]{0,20}(?:[ \t\n]{1,8}|$)){1,40})",
    re.MULTILINE,
)
_ECHO = re.compile(r"^[^\n]{0,160}[#$>] ?echo (?P<asked>[^\n|;&>]{4,200})\n(?P<said>[^\n]{1,200})$", re.MULTILINE)
_MASTER = re.compile(r"\bMASTER_ADDR=['\"]?(?P<ip>\d{1,3}(?:\.\d{1,3}){3})\b")
_INSIDE = re.compile(r"lo|docker|virbr|veth|br-|cni|flannel|cali|tun|kube")


def not_listed(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """NCCL_SOCKET_IFNAME names an interface that the listing beside the error does not have."""
    file = in_files(texts).get("NCCL_SOCKET_IFNAME")
    value = facts.value("NCCL_SOCKET_IFNAME") or _echoed(texts, "NCCL_SOCKET_IFNAME") or (file.value if file else "")
    if not value or value.startswith("^"):
        return None
    wanted = [each.lstrip("=").partition(":")[0] for each in value.split(",") if each.lstrip("=")]
    for text in texts:
        found = list(_BRIEF.finditer(text.text)) or list(_LONG.finditer(text.text))
        if (apart := _without_address(value, wanted, text) or _other_names(value, wanted, found, text)) is not None:
            return apart
        listed = next(_OF_CLASS.finditer(text.text), None)
        names = list(dict.fromkeys([each["name"] for each in found] or (listed["names"].split() if listed else [])))
        # NCCL takes a name without = for the begin of names.
        if len(names) < 2 or any(name.startswith(each) for each in wanted for name in names):
            continue
        use = _between_hosts(found, texts) or _only_one([] if found else names)
        name = f"={use}" if use else " to one of these that reaches the other nodes"
        begin = found[0].start() if found else listed.start("names") if listed else 0
        if file is not None and file.value == value:
            return Sharper(
                f"NCCL_SOCKET_IFNAME={named(value)} stands in {file.path}, which NCCL reads itself, and names no "
                f"network interface of this host: it has {named(', '.join(names[:8]), 100)}",
                f"delete that line of {file.path}, or set NCCL_SOCKET_IFNAME{name} (ip -br addr): the environment goes "
                "before the file. To unset it in a shell does nothing. Look at the file on all nodes, and at its other "
                "lines",
                (file.evidence, text.evidence(begin)),
            )
        return Sharper(
            f"NCCL_SOCKET_IFNAME={named(value)} names no network interface of this host: it has "
            f"{named(', '.join(names[:8]), 100)}",
            f"set NCCL_SOCKET_IFNAME{name} (ip -br addr), or unset it; the same for GLOO_SOCKET_IFNAME. Where hosts "
            "name it differently, give a begin that all share, or exclude by ^docker,lo",
            (text.evidence(begin),),
        )
    return None


def _only_one(names: Sequence[str]) -> str:
    """The only interface of a list of names that leads out of the host."""
    out = [each for each in names if not _INSIDE.match(each)]
    return out[0] if len(out) == 1 else ""


def _without_address(value: str, wanted: Sequence[str], text: Text) -> Sharper | None:
    """The interface is there, and it is down or has no address: NCCL takes only interfaces with one."""
    rows = [(each["name"], *_state(text, each), each) for each in _BRIEF.finditer(text.text)] or [
        (each["name"], *_state_long(text, each), each) for each in _LONG.finditer(text.text)
    ]
    mine = [row for row in rows if row[0].startswith(tuple(wanted))]
    if not mine or any(held for _, _, held, _ in mine):
        return None
    name, down, _, at = mine[0]
    host = host_before(text, at.start())
    others = [
        each
        for each, is_down, held, row in rows
        if held and not is_down and not _INSIDE.match(each) and host_before(text, row.start()) == host
    ]
    on = f" on {named(host, 40)}" if host else ""
    verb = "is" if len(others) == 1 else "are"
    listed = f": with an address there {verb} {named(', '.join(others[:6]), 100)}" if others else ""
    use = f"={others[0]}" if len(others) == 1 else " to the one of these that reaches the other nodes"
    use = use if others else " to one with an address that reaches the other nodes"
    return Sharper(
        f"NCCL_SOCKET_IFNAME={named(value)} names an interface that {'is DOWN and ' if down else ''}has no "
        f"address{on}{listed}",
        f"set NCCL_SOCKET_IFNAME{use} (ip -br addr on both hosts: one network), GLOO_SOCKET_IFNAME likewise. Or bring "
        f"{named(name, 30)} up: its cable (ethtool {named(name, 30)}: Link detected), ip link set up, and an address "
        "(netplan, nmcli). NCCL passes over interfaces without an address",
        (text.evidence(at.start()),),
    )


def _state(text: Text, row: re.Match[str]) -> tuple[bool, bool]:
    """Whether the interface of a row is down, and whether it has an address."""
    end = text.text.find("\n", row.start())
    return row["state"] == "DOWN", "/" in text.text[row.start("state") : end if end >= 0 else len(text.text)]


def _state_long(text: Text, row: re.Match[str]) -> tuple[bool, bool]:
    """The same of an interface as `ip addr` lists it over several lines."""
    after = _LONG.search(text.text, row.end())
    block = text.text[row.start() : min(after.start() if after else len(text.text), row.start() + 1500)]
    return " state DOWN" in block or "NO-CARRIER" in block, "    inet" in block


def _other_names(value: str, wanted: Sequence[str], found: Sequence[re.Match[str]], text: Text) -> Sharper | None:
    """One variable for all hosts, and a host whose interfaces have other names than those of the others."""
    of_host: dict[str, list[re.Match[str]]] = {}
    for each in found:
        if host := host_before(text, each.start()):
            of_host.setdefault(host, []).append(each)
    has = {host: [row for row in rows if row["name"].startswith(tuple(wanted))] for host, rows in of_host.items()}
    lacking = [host for host, rows in has.items() if not rows]
    if not lacking or len(lacking) == len(has):
        return None
    there = next(host for host, rows in has.items() if rows)
    own = {host: _between_hosts(of_host[host], ()) for host in lacking}
    named_there = ", ".join(
        f"{named(host, 40)} calls it {own[host]}" if own[host] else named(host, 40) for host in lacking
    )
    both = ",".join(dict.fromkeys((*wanted, *(each for each in own.values() if each))))
    how = f"NCCL_SOCKET_IFNAME={named(both, 80)} for all hosts (each takes the one it has)" if all(own.values()) else (
        "a begin that the names of all hosts share"
    )  # fmt: skip
    return Sharper(
        f"NCCL_SOCKET_IFNAME={named(value)} is set for all hosts, and names no interface of "
        f"{named(', '.join(lacking[:4]), 80)}: {there} has it, and {named_there}",
        f"set {how}. Or give each host its own name (~/.nccl.conf of the host), or exclude the others by ^lo,docker. "
        "GLOO_SOCKET_IFNAME takes one name: set it per host. Launchers carry a variable to all hosts (.deepspeed_env, "
        "mpirun -x)",
        tuple(text.evidence(rows[0].start()) for rows in (has[there], of_host[lacking[0]])),
    )


def _echoed(texts: Sequence[Text], name: str) -> str:
    """The value of a variable that somebody had the shell print, perhaps among others."""
    for text in texts:
        for found in _ECHO.finditer(text.text):
            asked, said = (
                found["asked"].replace("{", "").replace("}", "").replace('"', "").split(),
                found["said"].split(),
            )
            if f"${name}" in asked and len(asked) == len(said):
                return said[asked.index(f"${name}")]
    return ""


def _between_hosts(found: Sequence[re.Match[str]], texts: Sequence[Text]) -> str:
    """The interface that has rank 0's address, or the only one with an address that leads out of the host."""
    rows = [(each["name"], each.groupdict().get("ip") or "") for each in found]
    masters = {each["ip"] for text in texts for each in _MASTER.finditer(text.text)} | {_echoed(texts, "MASTER_ADDR")}
    by_master = [name for name, ip in rows if ip and ip in masters and not _INSIDE.match(name)]
    out = [name for name, ip in rows if ip and not _INSIDE.match(name)]
    return (by_master or out if len(out) == 1 else by_master or [""])[0]


_FALLBACK = re.compile(
    r"^\W{0,2}\(?[^()\n]{0,60}\bip=(?P<ip>\d{1,3}(?:\.\d{1,3}){3})\)[^\n]{0,120}Using the loopback address as fallback",
    re.MULTILINE,
)
_SHELL = re.compile(
    r"GLOO_SOCKET_IFNAME=(?P<value>[\w,^=.-]{1,40})(?=[^\n]{0,400}(?:vllm|sglang|python|ray job)\b)"
    r"|^[^\n]{0,120}\bexport GLOO_SOCKET_IFNAME=(?P<exported>[\w,^=.-]{1,40})",
    re.MULTILINE,
)


def not_in_workers(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The variable stands in the command's shell, and Ray's workers of another node do without it."""
    shell = next(((text, found) for text in texts if (found := _SHELL.search(text.text))), None)
    fell = [(text, found) for text in texts for found in _FALLBACK.finditer(text.text)]
    if shell is None or not fell:
        return None
    value = shell[1]["value"] or shell[1]["exported"]
    nodes = ", ".join(sorted({found["ip"] for _, found in fell}))
    return Sharper(
        f"Gloo falls back to the loopback interface on {named(nodes, 80)}, as that host's name cannot be resolved. "
        f"GLOO_SOCKET_IFNAME={named(value)} was set in one shell alone, and Ray's workers there do not have it",
        f"set GLOO_SOCKET_IFNAME={named(value)} (and NCCL_SOCKET_IFNAME) on every node before ray start, or in the "
        "container's environment (docker run -e): workers take it from there. So: ray stop on all, then start anew. "
        "Or give each host's name its LAN address in /etc/hosts",
        (shell[0].evidence(shell[1].start()), fell[0][0].evidence(fell[0][1].start())),
    )
