"""More workers came to the store's barrier than the job has ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def _more(groups: Sequence[Mapping[str, str]]) -> list[tuple[int, int]]:
    """Pairs of workers and ranks, where there are more workers."""
    pairs = [(int(each["workers"]), int(each["ranks"])) for each in groups]
    return [(workers, ranks) for workers, ranks in pairs if workers > ranks]


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """With the counts."""
    workers, ranks = max(_more(groups))
    return f"{workers} workers came to the store of a job of {ranks}: an earlier or second job uses the same store"


SIGNATURE = Signature(
    name="stale-store",
    stage=Stage.LAUNCH,
    title="more workers came to the store than the job has ranks: an earlier or second job uses the same store",
    patterns=(r"world_size=(?P<ranks>\d{1,7}), (?:worker_count|num_workers_joined)=(?P<workers>\d{1,7})",),
    explains=("rendezvous-timeout",),
    confirm="pgrep -af python on the host of MASTER_ADDR; ss -tlnp | grep MASTER_PORT; echo $WORLD_SIZE on every node",
    cure=(
        "end processes of earlier starts on all nodes, give each job a MASTER_PORT of its own, and the same "
        "WORLD_SIZE to every process"
    ),
    source="torch/distributed/distributed_c10d.py: _store_based_barrier",
    tell=tell,
    holds=lambda groups: bool(_more(groups)),
)
