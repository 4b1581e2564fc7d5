"""Clues of RoCE's addresses (GIDs): which index a program takes by its own variable, and whose interface has one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

GIDS = re.compile(
    r"^(?P<dev>\w{3,20})\s{1,8}(?P<port>\d{1,2})\s{1,8}(?P<index>\d{1,3})\s{1,8}(?P<gid>[0-9a-f:]{30,39})[ \t]{1,24}"
    r"(?:(?P<ip>\d{1,3}(?:\.\d{1,3}){3})[ \t]{1,16})?(?P<kind>v[12])\b",
    re.MULTILINE,
)
"""A row of `show_gids`."""


@dataclass(frozen=True, slots=True)
class _Program:
    """Who opens RDMA connections itself, the words of its lines, and the variable by which it takes a GID."""

    name: str
    words: re.Pattern[str]
    variable: str


_PROGRAMS = (
    _Program(
        "Mooncake",
        re.compile(r"\b(?:rdma_(?:endpoint|context|transport)|worker_pool|transfer_engine\w{0,20})\.cpp:|[Mm]ooncake"),
        "MC_GID_INDEX",
    ),
    _Program("NVSHMEM", re.compile(r"nvshmem|NVSHMEM|\bibgda|\bibrc\b|/transport/ib\w{0,12}/"), "NVSHMEM_IB_GID_INDEX"),
    _Program("UCX", re.compile(r"\bUCX\s{1,4}(?:ERROR|WARN|DIAG)|\bib_(?:mlx5|iface|device)\w{0,12}\.c:|\buc[pt]_"),
             "UCX_IB_GID_INDEX"),
)  # fmt: skip
_SAID_BY_MOONCAKE = re.compile(
    r"RDMA device: (?P<dev>[\w.-]{2,30}), LID: 0, GID: \(GID_Index (?P<index>\d{1,3})\) (?P<gid>fe:80:[0-9a-f:]{20,50})"
)
"""Its GID on Ethernet, where it is link-local; on InfiniBand, which has a LID, all GIDs begin so."""


def program_of(finding: Finding) -> str:
    """Who else than NCCL speaks in all evidence; "" for NCCL."""
    told = [seen.fact for seen in finding.evidence if seen.line]
    return next((each.name for each in _PROGRAMS if told and all(each.words.search(fact) for fact in told)), "")


def gid_of_program(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A program that is not NCCL takes a GID by its own variable, and that one does not lead to other hosts."""
    who = next((each for each in _PROGRAMS if each.name == program_of(finding)), None)
    if who is None:
        return None
    given = re.compile(rf"\b{who.variable}['\"]?(?:=|: ?|, ?)['\"]?(?P<index>\d{{1,3}})\b")
    value = next(((text, found) for text in texts if (found := given.search(text.text))), None)
    said = next(((text, found) for text in texts if (found := _SAID_BY_MOONCAKE.search(text.text))), None)
    taken = value[1]["index"] if value else said[1]["index"] if said and who.name == "Mooncake" else ""
    if not taken:
        return None
    seen = [text.evidence(found.start()) for text, found in filter(None, (value, said))]
    rows = [(text, row) for text in texts for row in GIDS.finditer(text.text)]
    mine = next(((text, row) for text, row in rows if row["index"] == taken), None)
    good = next(((text, row) for text, row in rows if row["ip"] and row["kind"] == "v2"), None)
    if mine is not None and (mine[1]["gid"].startswith("fe80") or mine[1]["kind"] == "v1") and good is not None:
        kind = f"{'link-local, ' if mine[1]['gid'].startswith('fe80') else ''}RoCE {mine[1]['kind']}"
        seen += [text.evidence(row.start()) for text, row in (mine, good)]
    elif mine is None and said is not None and said[1]["index"] == taken:
        kind = "link-local"
    else:
        return None
    index = good[1]["index"] if good else "N"
    entry = "" if good else " (N is that index)"
    by = f", by {who.variable}={taken}" if value else ""
    return Sharper(
        f"{who.name} takes a GID that the network does not carry between hosts (index {taken}: {kind}){by}",
        f"set {who.variable}={index} on all servers{entry}: the entry of RoCE v2 with an IPv4 address in show_gids. "
        f"{'Or unset it, so that it is looked for. ' if value else ''}NCCL_IB_GID_INDEX does nothing for {who.name}",
        tuple(seen),
    )


_TRIED = re.compile(
    r"\b(?P<by>ib_(?:write|read|send)_(?:bw|lat))\b[^\n]{0,160}?(?:-x|--gid-index)[ =]?(?P<index>\d{1,3})\b"
    r"[^\n]{0,160}\n(?:[^\n]{0,200}\n){0,40}?\s{0,4}\d{1,10}\s{1,16}\d{1,9}\s{1,20}\d[\d.]{0,12}\s{1,20}\d",
    re.MULTILINE,
)
"""A test of perftest with a GID of its own, and a row of its results."""
_TAKEN = re.compile(r"\bGID (?P<index>\d{1,3}) \(")
_GIVEN = re.compile(r"\bNCCL_IB_GID_INDEX['\"]?(?:=|: ?|, ?)['\"]?(?P<index>\d{1,3})\b")
_VERSION = re.compile(r"\bNCCL version (\d{1,2})\.(\d{1,3})\.")
_CHOOSES = (2, 21)
"""The first release of NCCL that looks for the GID itself; older ones take index 0."""
_USE = (
    "set NCCL_IB_GID_INDEX={index} on all nodes, as that is the entry of RoCE v2 with an IPv4 address in show_gids (or "
    "NCCL 2.21 and newer, which looks for it itself). Keep it in /etc/nccl.conf where all hosts have the same index"
)


def gid_that_works(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """RDMA works by a GID that NCCL does not take."""
    if program_of(finding):
        return None  # its own variable decides, and not NCCL's
    taken = facts.value("NCCL_IB_GID_INDEX") or _index_taken(texts)
    # As commands, scripts and listings of the environment set it: NCCL's own lines need not be in the log.
    given = {found["index"] for text in texts for found in _GIVEN.finditer(text.text)}
    if taken is None or taken == "0":
        taken = min(given, default=taken)
    for text in texts:
        rows = {each["index"]: each for each in GIDS.finditer(text.text)}
        tried = _TRIED.search(text.text)
        if tried is not None and tried["index"] not in (taken, *given):
            by = f"{tried['by']} reaches the peer by GID index {tried['index']}"
            return Sharper(
                f"NCCL takes a GID that the network does not carry{_of(taken, rows)}: {by}",
                _USE.format(index=tried["index"]),
                (text.evidence(tried.start()), *_row(text, rows.get(taken or ""))),
            )
        mine = rows.get(taken or "")
        better = next((each for each in rows.values() if each["ip"] and each["kind"] == "v2"), None)
        if mine is not None and better is not None and (mine["gid"].startswith("fe80") or mine["kind"] == "v1"):
            return Sharper(
                f"NCCL takes a GID that routers and most switches do not carry{_of(taken, rows)}",
                _USE.format(index=better["index"]),
                (text.evidence(mine.start()), text.evidence(better.start())),
            )
    return None


def _index_taken(texts: Sequence[Text]) -> str | None:
    """The index that NCCL's lines name, or that its release takes; None where nothing tells."""
    for text in texts:
        if found := _TAKEN.search(text.text):
            return found["index"]
    versions = [(int(found[1]), int(found[2])) for text in texts for found in _VERSION.finditer(text.text)]
    return "0" if versions and max(versions) < _CHOOSES else None


def _of(taken: str | None, rows: dict[str, re.Match[str]]) -> str:
    if taken is None:
        return ""
    row = rows.get(taken)
    kind = f": link-local, RoCE {row['kind']}" if row is not None and row["gid"].startswith("fe80") else ""
    return f" (index {taken}{kind})"


def _row(text: Text, row: re.Match[str] | None) -> Iterator[Evidence]:
    if row is not None:
        yield text.evidence(row.start())


_NDEV = re.compile(
    r"^(?P<index>\d{1,3})[ :\t]{1,4}(?:[0-9a-f:]{30,39}[ \t]{1,4})?"
    r"(?P<what>cat: [^\n]{0,100}/ndevs/\d{1,3}'?: [^\n]{0,40}|[a-z][\w.@-]{1,20})\s*$",
    re.MULTILINE,
)
"""A GID's index and the interface that it belongs to, or what cat said in its place."""


_STRANGE = re.compile(
    r"^cat: \S{0,2}/sys/class/infiniband/(?P<dev>[\w-]{2,30})/ports/\d{1,2}"
    r"/gid_attrs/ndevs/(?P<index>\d{1,3})\S{0,2}: Invalid arg",
    re.MULTILINE,
)


def gid_of_nobody(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The GID that is used has an address, and no interface that this container sees."""
    taken = facts.value("NCCL_IB_GID_INDEX")
    for text in texts:
        for found in _STRANGE.finditer(text.text):
            if taken not in (None, found["index"]):
                continue
            return Sharper(
                f"GID index {found['index']} of {named(found['dev'])} belongs to an interface of another "
                f"network namespace "
                "(the host's): the container has the RDMA device, and not its interface",
                "give the pod an interface of that NIC (macvlan, ipvlan, SR-IOV or host-device by Multus, in "
                "k8s.v1.cni.cncf.io/networks) and use its GID index, or run with hostNetwork: true. The device, "
                "its driver "
                "and cables are right",
                (text.evidence(found.start()),),
            )
    return None


def gid_of_namespace(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Only some GIDs of the device belong to an interface that this container sees."""
    for text in texts:
        if "gid_attrs/ndevs" not in text.text:
            continue
        rows = list(_NDEV.finditer(text.text))
        strange = [each for each in rows if each["what"].startswith("cat:")]
        mine = [each for each in rows if not each["what"].startswith("cat:")]
        if strange and mine:
            last = mine[-1]
            return Sharper(
                f"NCCL takes a GID of an interface that this container does not see: only index {last['index']} "
                f"belongs to its own, {named(last['what'])}",
                f"set NCCL_IB_GID_INDEX={last['index']} in the pods (UCX_IB_GID_INDEX={last['index']} too): all other "
                "entries belong to interfaces of the host's network namespace. The index may differ after a restart: "
                "NCCL 2.21 and newer look for it themselves. Or run with the host's network",
                (text.evidence(last.start()), text.evidence(strange[0].start())),
            )
    return None


_OF_DEVINFO = re.compile(
    r"^\s{0,12}GID\[\s{0,3}\d{1,3}\]:\s{1,8}::ffff:(?P<ip>\d{1,3}(?:\.\d{1,3}){3})\b", re.MULTILINE
)
"""A GID as `ibv_devinfo -v` lists it."""
_OF_NCCL = re.compile(
    r"^[^\n]{0,80}?\b(?P<host>[A-Za-z][\w.-]{0,60}):\d{1,8}:\d{1,8} \[\d{1,3}\][^\n]{0,300}?"
    r"\blocal ?GID ::ffff:(?P<ip>\d{1,3}(?:\.\d{1,3}){3})\b",
    re.MULTILINE,
)
_LISTS = re.compile(
    r"[#$>] ?(?:sudo )?(?:ip (?:-\w{1,8} ){0,3}a(?:ddr(?:ess)?)?(?: show| ls)?|ifconfig(?: -a)?)\s{0,3}$", re.MULTILINE
)
"""A command that lists all interfaces."""
_ADDRESS = re.compile(
    r"^(?P<name>[a-z][\w.-]{0,20}?)(?:@\S{1,20})?\s{1,20}(?:UP|DOWN|UNKNOWN)\s{1,20}(?P<brief>\d{1,3}(?:\.\d{1,3}){3})/"
    r"|^\s{1,12}inet (?:addr:)?(?P<long>\d{1,3}(?:\.\d{1,3}){3})\b(?:[^\n]{0,80} (?P<dev>[a-z][\w.-]{0,20})$)?",
    re.MULTILINE,
)
_ENDS = re.compile(r"^(?:\S{0,80}[$#>] ?\S|\[[^\]\n]{2,80}\][$#] ?\S)", re.MULTILINE)
_LONGEST = 6000
"""Letters of one listing that are looked at."""
_CURE = (
    "give the pod the NIC's interface, too: hostNetwork: true (docker --network=host), or SR-IOV, macvlan or "
    "host-device by Multus (k8s.v1.cni.cncf.io/networks), and use a GID of that interface. The device, cables and the "
    "hosts' network are right. Until then NCCL_IB_DISABLE=1"
)
_NO_NETDEV = re.compile(
    r"^link (?P<dev>[\w.-]{2,30})/\d{1,2} state ACTIVE physical_state LINK_UP\s{0,3}$", re.MULTILINE
)
"""A port of Ethernet as `rdma link` lists it where its interface is in another namespace; InfiniBand has LIDs there."""


def gid_without_interface(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The addresses of the GIDs are on no interface that the same host or container lists."""
    for text in texts:
        for host, names, addresses, at in _listings(text):
            gids = [(found["ip"], found.start("ip")) for found in _gids(text, host)]
            if not gids or any(ip in addresses for ip, _ in gids):
                continue
            own = ", ".join(f"{name} {ip}" for name, ip in names[:3] if not ip.startswith("127."))
            where = f" of {named(host, 40)}" if host else ""
            return Sharper(
                f"the RoCE address of the NIC ({gids[0][0]}) is on no interface{where}, which has "
                f"{named(own) or 'lo alone'}: the container has the device, and its interface is in the host's "
                "network namespace",
                _CURE,
                (text.evidence(gids[0][1]), text.evidence(at)),
            )
        if found := _NO_NETDEV.search(text.text):
            return Sharper(
                f"the interface of {named(found['dev'])} is in another network namespace (the host's): the container "
                "has the RDMA device alone, by which no address of a peer is found",
                _CURE,
                (text.evidence(found.start()),),
            )
    return None


def _gids(text: Text, host: str) -> Iterator[re.Match[str]]:
    """GIDs with an IPv4 address that this host or container lists, or that NCCL names there."""
    for found in _OF_DEVINFO.finditer(text.text):
        if host_before(text, found.start()) == host:
            yield found
    for found in GIDS.finditer(text.text):
        if found["ip"] and host_before(text, found.start()) == host:
            yield found
    for found in _OF_NCCL.finditer(text.text):
        if found["host"] == host:
            yield found


def _listings(text: Text) -> Iterator[tuple[str, list[tuple[str, str]], set[str], int]]:
    """Each list of all interfaces: its host, names with addresses, the addresses, and where it stands."""
    for command in _LISTS.finditer(text.text):
        end = _ENDS.search(text.text, command.end() + 1)
        stop = min(end.start() if end else len(text.text), command.end() + _LONGEST)
        rows = list(_ADDRESS.finditer(text.text, command.end(), stop))
        names = [((row["name"] or row["dev"] or ""), row["brief"] or row["long"]) for row in rows]
        if any(ip.startswith("127.") for _, ip in names):
            yield host_before(text, command.end()), names, {ip for _, ip in names}, rows[-1].start()
