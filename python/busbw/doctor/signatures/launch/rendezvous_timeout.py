"""Not all processes came to the meeting."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

_TITLE = "not all processes reached the rendezvous within its time: some node did not start, or cannot reach the store"


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """How many came to the store; several logs that wait at one tell of several stores."""
    counts = [(each["joined"], each["size"]) for each in groups if "joined" in each]
    if not counts:
        return _TITLE
    joined, size = counts[0]
    if counts.count(counts[0]) > 1 and 2 * int(joined) <= int(size):
        return (
            f"{counts.count(counts[0])} nodes each wait at a store of their own, to which {joined} of {size} came: "
            "each was started as the first node (node rank, machine_rank 0), or with its own address"
        )
    return (
        f"only {joined} of {size} processes joined the job in its time: the others were not started, or cannot reach "
        "the first one"
    )


SIGNATURE = Signature(
    name="rendezvous-timeout",
    stage=Stage.LAUNCH,
    title=_TITLE,
    patterns=(
        r"Failed to connect to (?:distributed JAX controller|coordination service)",
        r"waited too long for some tasks to show up",
        r"PjRT_Client_Connect|RPC: /\S{1,60}CoordinationService/RegisterTask",
        r"\betcd\b.{0,60}(?:unavailable|unreachable|fail|no leader|timed out|server status|request timed)",
        r"\b(?:fail\w*|[Uu]nable|[Cc]annot|[Cc]ould not|[Ee]rror)\b.{0,60}\betcd\b",
        r"\bmaster connect timeout",  # Paddle's launcher
        r"RendezvousClosedError",
        r"\bquorum (?:failed|timed out)|quorum.{0,60}(?:[Tt]imeout|[Dd]eadline)|waiting for quorum",
        r"Original timeout was \d+ ms",
        r"Timed out after \d+ seconds waiting for clients",
        r"(?P<joined>\d{1,7})/(?P<size>\d{1,7}) clients joined",
        r"RendezvousTimeoutError",
        r"RendezvousConnectionError",
        r"connection to the C10d store has failed",
        r"(?:store->get|wait_for_workers|StoreTimeout|wait timeout after).{0,120}(?:time|timeout|key)",
        r"Socket Timeout",
        r"wait timeout after \d+ms, keys",
        r"Timed out waiting on barrier on rank \d",
        r"rendezvous.{0,60}(?:timed? ?out|failed|closed)",
        r"barrier timed out",
        r"(?:[Tt]imeout|[Tt]imed out|[Gg]ave up)(?: while| on)? waiting for.{0,40}"
        r"(?:\branks\b|\bworkers\b|\bparticipants\b|\bnodes\b|\bjoin)",
        r"\bwait(?:ing|ed)? for .{0,40}\b\d+ (?:ranks|workers|participants|nodes|peers)\b.{0,20}"
        r"\bonly \d+ (?:\w+ )?(?:joined|arrived|connected|registered|found|came)",
        r"RuntimeError: Wait timeout",
        r"Timeout waiting for key: \w+",
        r"GetKeyValue\(\) timed out",
        r"timed out with key: \w+",
        r"Timed out initializing process group in store based barrier",
    ),
    explains=(
        "master-unreachable",
        "watchdog-timeout",
    ),
    unless=(
        "rendezvous.cc",
        "clique",
    ),
    confirm=("which nodes' logs have a first line at all; nc -zv MASTER_ADDR MASTER_PORT from each of them"),
    cure=(
        "start all nodes within the time (raise --rdzv-conf timeout or "
        "init_process_group(timeout=)), the same --rdzv-endpoint, --rdzv-id and --nnodes on all; "
        "open MASTER_PORT"
    ),
    source="torch/csrc/distributed/c10d/TCPStore.cpp",
    tell=tell,
)
