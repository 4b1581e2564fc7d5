"""A part of a serving system that the others need is not there: metadata, master, etcd, NATS, workers, a peer."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

_TITLE = "a part of the serving system does not answer: it was not started, ended, or is at another address"
_KINDS = {
    "meta": "the metadata server of the transfer engine does not answer: servers cannot tell each other where they are",
    "master": "the master of the cache store (mooncake_master) does not answer",
    "etcd": "etcd, at which the parts of the serving system register, does not answer",
    "lease": "a worker lost its entry in etcd (its lease ran out), and shuts down",
    "nats": "NATS, over which the parts of the serving system talk, does not answer",
    "none": "the front end knows no worker that could take the request: none is registered or healthy",
    "prefill": "the prefill server does not answer its decode servers any more: it ended, or was never reachable",
    "cache": "the cache server (LMCache) does not answer",
    "crashed": "the remote server of llama.cpp (rpc-server) ended in the midst of a request, or is of another release",
}


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """Which part is missing, and its address where a line names it."""
    for kind, title in _KINDS.items():
        said = next((each[kind] for each in groups if kind in each), "")
        if said:
            return f"{title} ({said[:80]})" if ":" in said and " " not in said else title
    return _TITLE


SIGNATURE = Signature(
    name="service-missing",
    stage=Stage.LAUNCH,
    title=_TITLE,
    patterns=(
        r"(?:GET|PUT|POST|DELETE) https?://(?P<meta>[^\s/]{3,80})/metadata\S{0,300} (?:curl:|http=(?!200))",
        r"(?P<meta>(?:Redis|Etcd|HTTP)StoragePlugin: (?:unable to|failed))",
        r"\.cpp:\d{1,5}\] (?P<master>Failed to connect to master)",
        r"(?P<etcd>Failed to connect to etcd server with config)",
        r"(?P<lease>primary lease (?:was )?(?:lost|expired|revoked)|unable to (?:maintain|refresh|keep) lease\b)",
        r"(?P<nats>failed to connect to NATS\b|nats: no servers available)",
        r"(?P<none>no (?:instances|workers) (?:found|available|registered) for)",
        r"(?P<none>no (?:available|healthy) (?:(?:prefill|decode|regular) )?workers\b)",
        r"Losing connection with prefill instance \(bootstrap_addr: (?P<prefill>[\w.\[\]:-]{3,80})\)",
        r"(?P<prefill>Error fetching prefill \w{2,20} info from bootstrap)",
        r"(?P<cache>Failed to connect to remote lmcache server)",
        r"(?P<crashed>Remote RPC server crashed or returned malformed)",
    ),
    explains=(
        *("rendezvous-timeout", "connection-refused", "connection-timeout", "kv-transfer", "python-exception"),
        "process-crashed",
    ),
    confirm="curl or nc -zv ADDRESS PORT from that host; the log of the part that is named",
    cure=(
        "see that this part runs, listens at an address that other hosts reach (no 127.0.0.1), and that its port is "
        "open; give all servers the same address of it"
    ),
    source="Mooncake transfer_metadata_plugin.cpp; Dynamo lib/runtime; SGLang disaggregation; ggml-rpc.cpp",
    tell=tell,
    soft=True,
)
