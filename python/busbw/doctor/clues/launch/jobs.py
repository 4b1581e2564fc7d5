"""Clues of jobs: nodes with the same number, who holds a GPU's memory, and how a checkpoint was split."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.network.ports import process_row
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_NODE_RANK = re.compile(
    r"(?:^|[\s\"'-])(?P<name>machine_rank|--machine_rank|--node[_-]rank|NODE_RANK|GROUP_RANK)[\"']?(?: ?[:=] ?| )"
    r"[\"']?(?P<value>\d{1,5})\b",
    re.MULTILINE,
)
_ALREADY = re.compile(r"rank (?P<rank>\d{1,6}) of \d{1,6} ranks has already checked in")

_BEGINS = re.compile(
    r"(?P<host>[A-Za-z][\w.-]{0,80}):\d{1,8}:\d{1,8} \[\d{1,3}\] NCCL INFO ncclCommInit\w{2,30} comm "
    r"0x[0-9a-f]{1,16} rank (?P<rank>\d{1,6}) nranks \d{1,6} [^\n]{0,120}?commId (?P<id>0x[0-9a-f]{1,16}) - Init START"
)


def same_node_rank(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Two hosts have the same ranks, as each was started with the number of the same node."""
    if not any(_ALREADY.search(seen.fact) for seen in finding.evidence):
        return None
    twice = _on_two_hosts(texts)
    set_to = [(text, found) for text in texts for found in _NODE_RANK.finditer(text.text)]
    values = {found["value"] for _, found in set_to}
    if not twice or len(values) > 1:
        return None
    rank, hosts = twice
    name = set_to[0][1]["name"] if set_to else "node rank (--node-rank, machine_rank)"
    value = f" ({next(iter(values))})" if values else ""
    return Sharper(
        f"nodes were started with the same {name}{value}: rank {rank} is on {' and on '.join(map(named, hosts[:2]))}",
        "give each node its own number: 0 on the node of MASTER_ADDR (main_process_ip), 1 on the next (accelerate "
        "launch --machine_rank 1, torchrun --node-rank 1). A config that was copied to another node must differ in "
        "that line; all else stays the same on all nodes",
        tuple(text.evidence(found.start("name")) for text, found in set_to[:2]),
    )


def _on_two_hosts(texts: Sequence[Text]) -> tuple[str, list[str]] | None:
    """The first rank of a communicator that two hosts claim, and these hosts."""
    hosts: dict[tuple[str, str], dict[str, None]] = {}
    for text in texts:
        for found in _BEGINS.finditer(text.text):
            hosts.setdefault((found["id"], found["rank"]), {})[found["host"]] = None
    return next(((rank, list(each)) for (_, rank), each in hosts.items() if len(each) > 1), None)


_QUERIED = re.compile(
    r"--query-compute-apps=pid,(?:process_name,)?used_(?:gpu_)?memory|^pid, [^\n]{0,60}\bused_gpu_memory", re.MULTILINE
)
_APP = re.compile(r"^(?P<pid>\d{2,9}), (?:[^,\n]{1,120}, )?(?P<much>\d{3,7}) MiB\b", re.MULTILINE)
_TABLE = re.compile(
    r"\|\s{1,6}(?P<gpu>\d{1,3})\s{1,8}(?:N/A|\d{1,3})\s{1,8}(?:N/A|\d{1,3})\s{1,14}(?P<pid>\d{1,9})\s{1,8}C\s{1,8}"
    r"\S[^|\n]{0,80}?\s{1,60}(?P<much>\d{3,7})MiB \|"
)
_LEAST_MIB = 1024


def holder_of_memory(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A process without a parent, as `ps` shows it, that `nvidia-smi` lists among those that hold the memory."""
    for text in texts:
        query = _QUERIED.search(text.text)
        rows = [*(_APP.finditer(text.text, query.end()) if query else ()), *_TABLE.finditer(text.text)]
        for app in rows:
            row = process_row(text, app["pid"]) if int(app["much"]) >= _LEAST_MIB else None
            # A process whose parent ended belongs to the first one of the system.
            # In a container the first process may be the server itself, and the log names its workers.
            if row is None or row["ppid"] != "1" or re.search(rf"\bpid[= ]{app['pid']}\b", text.text):
                continue
            return Sharper(
                f"a left-over process of an earlier start still holds {app['much']} MiB of that GPU: "
                f"{named(row['cmd'])} (pid {app['pid']}), whose parent has ended",
                f"end it on the host (kill {app['pid']}, then kill -9), see that nvidia-smi shows the memory free, and "
                "start again. Settings of the server do not help. Let its container take all processes with it when "
                "it ends (an init such as tini, a shared PID namespace)",
                (text.evidence(app.start("pid")), text.evidence(row.start("cmd"))),
            )
    return None


_PART = re.compile(r"\bmp_rank_(?P<tensor>\d{2,3})(?:_(?P<pipeline>\d{3}))?\b(?!/)")
_SIZES = re.compile(
    r"(?P<which>tensor|pipeline)[-_]model[-_]parallel(?:[-_]size)?(?: size)?[ :=]{1,3}(?P<size>\d{1,5})\b"
)
_FITS_NOT = re.compile(
    r"size mismatch|mp_rank_\d\d|loading state_dict|[Mm]issing key|ShardedTensor|CheckpointingException"
)


def split_of_checkpoint(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The parts of Megatron's checkpoint, as they are listed, beside the parallel sizes of this run."""
    if not any(_FITS_NOT.search(seen.fact) for seen in finding.evidence):
        return None
    for text in texts:
        parts = list(_PART.finditer(text.text))
        sizes = {each["which"]: int(each["size"]) for each in _SIZES.finditer(text.text)}
        if len(parts) < 2 or "tensor" not in sizes:
            continue
        saved = 1 + max(int(each["tensor"]) for each in parts), 1 + max(int(each["pipeline"] or 0) for each in parts)
        asked = sizes["tensor"], sizes.get("pipeline", 1)
        if saved == asked or len({(each["tensor"], each["pipeline"]) for each in parts}) != saved[0] * saved[1]:
            continue
        return Sharper(
            f"the checkpoint was saved with tensor parallel size {saved[0]} and pipeline parallel size {saved[1]}, and "
            f"this run loads it with {asked[0]} and {asked[1]}",
            f"go on with the sizes that it was saved with ({saved[0]} and {saved[1]}), or convert it first "
            "(tools/checkpoint/convert.py --target-tensor-parallel-size --target-pipeline-parallel-size). Checkpoints "
            "of --ckpt-format torch_dist can be loaded with other sizes",
            (text.evidence(parts[0].start()), *_banner(text)),
        )
    return None


def _banner(text: Text) -> tuple[Evidence, ...]:
    found = _SIZES.search(text.text)
    return (text.evidence(found.start()),) if found else ()


_TOO_MANY = re.compile(
    r"\b429 (?:Client Error: )?Too Many Requests\b[^\n]{0,80}(?:huggingface\.co|hf\.co|hf-mirror\.com|modelscope\.cn)"
    r"|[Ww]e had to rate limit (?:you|your IP)"
)
_OF_HUB = re.compile(
    r"couldn't connect to|HfHubHTTPError|\b429\b|cached files|[Rr]ate limit|LocalEntryNotFound|\bhub\b|huggingface"
)


def hub_limits(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The hub answered 429: what a library says after that speaks of the network or of a token."""
    said = next((seen for seen in finding.evidence if _OF_HUB.search(seen.fact)), None)
    for text in texts if said is not None else ():
        if (found := _TOO_MANY.search(text.text)) is not None:
            return Sharper(
                "the hub refuses more requests for now (429, its limit of rates): too many ranks ask it at once, "
                "behind one address or by one token",
                "fetch the model or data once (huggingface-cli download) to a folder that all nodes see, and set "
                "HF_HOME to it and HF_HUB_OFFLINE=1, or give its path. Else let one rank per node fetch first while "
                "the others wait. A token only raises the limit; network and NCCL need no repair",
                (text.evidence(found.start()),),
            )
    return None


_AGENT = re.compile(
    r"\bmin_nodes {1,20}: (?P<nodes>\d{1,6})\n(?:[^\n]{0,300}\n){0,4}?[^\n]{0,200}\brun_id {1,20}: (?P<id>\S{1,80})\n"
    r"(?:[^\n]{0,300}\n){0,3}?[^\n]{0,200}\brdzv_endpoint {1,20}: (?P<at>\S{1,120})"
)
"""What torchrun prints of its start on each node."""


def ids_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Agents of torchrun that go to one endpoint with different ids, each for a job of several nodes: nobody meets."""
    agents = [(text, found) for text in texts for found in _AGENT.finditer(text.text)]
    ids = list(dict.fromkeys(found["id"] for _, found in agents))
    alone = all(sum(each["id"] == found["id"] for _, each in agents) < int(found["nodes"]) for _, found in agents)
    if len(ids) < 2 or not alone or len({found["at"] for _, found in agents}) > 1:
        return None
    said = [next((text, found) for text, found in agents if found["id"] == each) for each in ids[:3]]
    return Sharper(
        f"nodes look for each other under different ids (--rdzv-id): {', '.join(map(named, ids[:3]))}",
        "start all nodes of one job with the same --rdzv-id, such as $SLURM_JOB_ID, with the same --rdzv-endpoint and "
        "--nnodes; a job that runs beside it takes another id",
        tuple(text.evidence(found.start("id")) for text, found in said),
    )
