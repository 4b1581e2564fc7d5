"""Clues of addresses: servers that listen for their own host alone, and addresses that a program gave, not NCCL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_LOOP = r"(?:127\.0\.[01]\.1|\[::1\]|localhost)"
_LISTENS = re.compile(
    rf"^\s{{0,8}}endpoint\s{{1,12}}: {_LOOP}:(?P<rpc>\d{{2,5}})\s*$"
    rf"|\bLISTEN\s{{1,12}}\d{{1,6}}\s{{1,12}}\d{{1,6}}\s{{1,12}}{_LOOP}:(?P<ss>\d{{2,5}})\b"
    r"(?:[^\n]{0,120}?users:\(\(\"(?P<ss_name>[^\"\n]{1,40})\")?"
    rf"|^tcp6?\s{{1,8}}\d{{1,6}}\s{{1,8}}\d{{1,6}}\s{{1,8}}{_LOOP}:(?P<net>\d{{2,5}})\s{{1,40}}\S{{3,60}}\s{{1,20}}LISTEN\b"
    r"(?:\s{1,12}\d{1,9}/(?P<net_name>[\w.-]{1,40}))?"
    rf"|\b(?:[Ll]istening (?:on|at)|[Rr]unning on|API server[^\n]{{0,40}} on)\W{{1,4}}(?:https?://)?{_LOOP}:(?P<said>\d{{2,5}})\b"
    r"|\bLocal node IP: (?P<ray>127\.0\.[01]\.1)\b",
    re.MULTILINE,
)
"""A server that tells, or of which ss and netstat tell, that it listens on the loopback interface."""
_REFUSED = re.compile(
    r"(?<![\w.-])(?P<host>(?!127\.|localhost\b|0\.0\.0\.0)[A-Za-z0-9][\w.-]{2,80})(?:\s\(tcp\))?(?: port |:|[ ,<]{1,2})"
    r"(?P<port>\d{2,5})\b(?!\.)(?=[^\n]{0,120}\b[Rr]efused)|^\W{0,3}Failed to connect to "
    r"(?P<bare>\d{1,3}(?:\.\d{1,3}){3}):(?P<bare_port>\d{2,5})\s*$",
    re.MULTILINE,
)
_RAY_PORT = "6379"
_CURES = (
    (
        re.compile(r"rpc-server|RPC server|ggml"),
        "rpc-server",
        "start it with -H 0.0.0.0 (or the address between the hosts) and -p {port}: its default is 127.0.0.1. It has "
        "no protection: only in a network that is trusted",
    ),
    (
        re.compile(r"ollama", re.IGNORECASE),
        "Ollama",
        "set OLLAMA_HOST=0.0.0.0:{port} where it is started (systemctl edit ollama: Environment=), then restart it",
    ),
    (
        re.compile(r"redis", re.IGNORECASE),
        "Redis",
        "set bind to the address between the hosts in redis.conf, with a password (protected-mode), and restart it",
    ),
    (
        re.compile(r"\bray start\b|Local node IP|raylet|gcs_server"),
        "Ray's head",
        "ray stop, then ray start --head --node-ip-address=IP, with the address that other nodes reach; take the "
        "host's name off the 127.0.1.1 line of /etc/hosts. Then join the others anew",
    ),
    (
        re.compile(r"vllm|sglang|llama-server|uvicorn|triton", re.IGNORECASE),
        "the server",
        "start it with --host 0.0.0.0 --port {port} (or the address between the hosts)",
    ),
)
"""By words near the line that shows who listens: its name, and the option that it has."""
_ANY = "let it listen on 0.0.0.0 or on the address between the hosts (--host, --bind, its configuration): port {port}"
_NEAR = 600


def for_itself_alone(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The port that refuses others is open on the loopback interface of its host."""
    said = (Text("", "\n".join(seen.fact for seen in finding.evidence)), *texts)
    refused = {port: host for text in said for host, port in _asked(text)}
    for text in texts if refused else ():
        for found in _LISTENS.finditer(text.text):
            port = _RAY_PORT if found["ray"] else next(each for each in found.groups() if each)
            if port not in refused or _for_all(texts, port):
                continue
            near = text.text[max(0, found.start() - _NEAR) : found.end() + _NEAR // 2]
            name = found["ss_name"] or found["net_name"] or ""
            _, who, cure = next((row for row in _CURES if row[0].search(name or near)), (None, "the server", _ANY))
            return Sharper(
                f"{who} listens for its own host alone (127.0.0.1:{port}), so that other hosts are refused: "
                f"{named(refused[port])}:{port}",
                f"{cure.format(port=port)}. The process runs, and no firewall is at work (that one mostly lets time "
                "out); NCCL has no part in it",
                (text.evidence(found.start()),),
            )
    return _rpc_unreached(said, texts)


def _asked(text: Text) -> Iterator[tuple[str, str]]:
    for found in _REFUSED.finditer(text.text):
        yield (found["host"] or found["bare"]), (found["port"] or found["bare_port"])


def _for_all(texts: Sequence[Text], port: str) -> bool:
    """Whether a list shows that the port is open for others as well."""
    words = re.compile(
        rf"LISTEN[^\n]{{0,40}}?(?:0\.0\.0\.0|\*|\[::\]):{port}\b|(?:0\.0\.0\.0|:::?):{port}\b[^\n]{{0,40}}LISTEN"
    )
    return any(words.search(text.text) for text in texts)


_RPC_DEVICE = re.compile(
    r"using device RPC\d{1,3} \((?P<at>[\w.-]{3,60}:\d{2,5})\)[^\n]{0,40} - 0 MiB free|--rpc [\w.-]{3,60}:\d"
)


def _rpc_unreached(said: Sequence[Text], texts: Sequence[Text]) -> Sharper | None:
    """llama.cpp goes on without a server of its RPC that it cannot reach."""
    device = next(((text, found) for text in texts if (found := _RPC_DEVICE.search(text.text))), None)
    refused = next((each for text in said for each in _asked(text)), None)
    if device is None or refused is None or not any("ailed to connect to" in text.text for text in said):
        return None
    host, port = refused
    return Sharper(
        f"llama.cpp does not reach the rpc-server at {named(host)}:{port}, and goes on without its memory",
        f"on that host start rpc-server with -H 0.0.0.0 -p {port}: its default is 127.0.0.1, which refuses other "
        f"hosts. See there what it listens on: ss -ltnp. From here nc -zv {named(host)} {port} tells a refusal from a "
        "firewall, which lets time out",
        (device[0].evidence(device[1].start()),),
    )


_UNREACHED = re.compile(
    r"(?<![\d.])(?P<ip>172\.17\.0\.\d{1,3}|192\.168\.122\.\d{1,3}|127\.0\.[01]\.1|169\.254\.\d{1,3}\.\d{1,3}|localhost)\b"
)


@dataclass(frozen=True, slots=True)
class _Giver:
    """How a program writes the address of rank 0 that it gives to all, its name, and the option that sets it."""

    words: str
    who: str
    cure: str


_OF_RAY = (
    "start Ray with an address that other nodes reach: ray stop, ray start --head --node-ip-address=IP; workers alike. "
    "The first rank takes it as master_address"
)
_GIVERS = (
    _Giver(r"Local node IP: <IP>", "Ray", _OF_RAY),
    _Giver(r"\bip=<IP>, actor_id", "Ray", _OF_RAY),
    _Giver(
        r"\bdistributed_init_method\W{1,5}tcp://<IP>",
        "the server or config (distributed_init_method)",
        "vLLM: VLLM_HOST_IP on each node, its own address; Hydra and fairseq: distributed_init_method=tcp://IP:PORT",
    ),
    _Giver(
        r"\bdist[_-]init[_-]addr['\"]?[ =:]{1,3}['\"]?<IP>", "--dist-init-addr", "--dist-init-addr IP:PORT on all nodes"
    ),
    _Giver(
        r"\bcoordinator_address\W{1,5}<IP>|\bCOORDINATOR_ADDRESS\W{1,3}<IP>",
        "coordinator_address",
        "give process 0's address in the network between the hosts (coordinator_address=IP:PORT)",
    ),
    _Giver(r"--rdzv[_-]endpoint[ =]<IP>", "--rdzv-endpoint", "--rdzv-endpoint=IP:PORT, alike on all nodes"),
    _Giver(
        r"\bmaster[_-]addr(?:ess)?['\"]?\s{0,2}[ =:]\s{0,2}['\"]?<IP>",
        "the program (master_address)",
        "set MASTER_ADDR (--master-addr, main_process_ip) to the first node's address in the network between the hosts",
    ),
    _Giver(r"\binit_method\W{1,4}tcp://<IP>", "init_method", "init_method=tcp://IP:PORT of the first node, on all"),
)
_GONE = re.compile(r"refused|errno: 111\b")
_RAY_SPEAKS = re.compile(r"\bray::|\bray start\b|raylet|RayActor|ray\.exceptions|\bray\.init\b")
_DOCKER_RUN = re.compile(r"\bdocker run (?![^\n]{0,600}(?:--net(?:work)?[ =]host))[^\n]{2,600}")
_KINDS = {
    "172": "that of Docker's bridge, which leads to each host's own containers",
    "192": "that of libvirt's bridge, which is inside of one host",
    "127": "each host's own",
    "loc": "each host's own",
    "169": "link-local",
}


def given_by_program(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Ranks connect to an address that is of use on one host alone, and a program or its launcher gave it."""
    # A line names who speaks, too: which address is rank 0's is told by where it was given.
    ips = dict.fromkeys(found["ip"] for seen in finding.evidence for found in _UNREACHED.finditer(seen.fact))
    given = next(
        ((text, found, each) for ip in ips for each in _GIVERS for text in texts if (found := _search(each, ip, text))),
        None,
    )
    if given is None:
        return None
    at = next(ip for ip in ips if ip in given[1][0])
    # On one host such an address does, and who is refused there misses a process that has ended.
    refused = all(_GONE.search(seen.fact) for seen in finding.evidence if at in seen.fact)
    if (at[:3] in ("127", "loc") or refused) and not _of_several_hosts(texts):
        return None
    text, found, giver = given
    ray = next((each for each in texts if _RAY_SPEAKS.search(each.text)), None)
    who, cure = giver.who, giver.cure
    if ray is not None and giver.who.endswith("(master_address)"):
        who, cure = "Ray, whose node in a container has no other (master_address)", _OF_RAY
    seen: list[Evidence] = [text.evidence(found.start())]
    seen.extend(each.evidence(run.start()) for each in texts if (run := _DOCKER_RUN.search(each.text)))
    host = "run the containers with --network=host, and " if at[:3] == "172" else ""
    return Sharper(
        f"the address of rank 0 that {who} gives to all nodes is {at}, {_KINDS[at[:3]]}: the others cannot reach it",
        f"{host}{cure}. NCCL did not choose that address: NCCL_SOCKET_IFNAME does not change it; longer timeouts do "
        "not help",
        tuple(seen),
    )


def _search(giver: _Giver, ip: str, text: Text) -> re.Match[str] | None:
    return re.search(giver.words.replace("<IP>", re.escape(ip)) + r"\b", text.text, re.IGNORECASE)


_NODES = re.compile(
    r"\b(?:n?nodes|num_nodes|num_machines)['\"]?[ =:]{1,3}['\"]?(?:[2-9]|\d{2,5})\b|--nnodes[ =](?:[2-9]|\d{2,5})\b"
)


def _of_several_hosts(texts: Sequence[Text]) -> bool:
    return any(_NODES.search(text.text) for text in texts)
