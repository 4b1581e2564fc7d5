"""A rank that ends before the ranks have met: the others end within seconds, whatever the launcher does."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("BUSBW_BUILD") or Path(__file__).resolve().parents[3] / "build")
PROGRAM = BUILD / "bin" / "all_reduce_perf"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="the engine is not built")
RANKS = 3
MEASURES = f"{PROGRAM} -b 8 -e 8 -n 1 -w 0"


def started(words: dict[int, str], key: str) -> tuple[list[subprocess.Popen[str]], float]:
    """Ranks as Open MPI numbers them, below a launcher (this process) that ends nobody; each by a shell of its own."""
    known = {
        name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMI", "SLURM_", "BUSBW_"))
    }
    ranks = []
    for rank, line in words.items():
        variables = {
            "OMPI_COMM_WORLD_RANK": str(rank),
            "OMPI_COMM_WORLD_SIZE": str(RANKS),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(RANKS),
            "PMIX_NAMESPACE": f"{key}-{os.getpid()}",
            "BUSBW_JOIN_TIMEOUT": "50",
        }
        ranks.append(
            subprocess.Popen(
                ["/bin/sh", "-c", line],
                env={**known, **variables},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return ranks, time.monotonic()


def ended(ranks: list[subprocess.Popen[str]], began: float) -> tuple[float, list[str]]:
    """After how many seconds all had ended, and what each said."""
    said = []
    try:
        said = [rank.communicate(timeout=60)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    return time.monotonic() - began, said


@pytest.mark.parametrize(
    "how", ["exit 0", "sleep 1; exit 3", "sleep 1; kill -9 $$", "ulimit -n 3; exec {}", "/nowhere/x"]
)
@pytest.mark.parametrize("lost", [0, 1])
def test_the_others_end(how: str, lost: int) -> None:
    words = {rank: how.format(MEASURES) if rank == lost else f"exec {MEASURES}" for rank in range(RANKS)}
    ranks, began = started(words, f"ends-{lost}-{abs(hash(how))}")
    # 5 s on a free machine; CI's is not.
    seconds, said = ended(ranks, began)
    assert seconds < 15, said
    for rank, text in enumerate(said):
        if rank != lost:
            assert "was lost: it ended before all had come" in text and len(text.splitlines()) <= 2, said
    assert any(f"process {lost}" in text or "a process of this host" in text for text in said), said
    if how.startswith("sleep"):  # it was seen before
        assert any(f"process {lost} (pid" in text for text in said), said
    assert [rank.returncode == 0 for rank in ranks] == [rank == lost and how == "exit 0" for rank in range(RANKS)]


def test_a_rank_below_a_shell_that_comes_late_is_waited_for() -> None:
    words = dict.fromkeys((1, 2), f"exec {MEASURES}") | {0: f"sleep 6; {MEASURES}; true"}
    ranks, began = started(words, "late")
    seconds, said = ended(ranks, began)
    assert [rank.returncode for rank in ranks] == [0, 0, 0], said
    assert seconds > 6 and not any("lost" in text for text in said)


def test_ranks_that_somebody_numbers_by_hand_may_come_when_they_like() -> None:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID")
    known = {name: value for name, value in os.environ.items() if name not in names}
    ranks = []
    for rank in (1, 0):
        variables = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20000 + os.getpid() % 9000)}  # fmt: skip
        ranks.append(
            subprocess.Popen(
                MEASURES.split(),
                env={**known, **variables},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        time.sleep(5 if rank else 0)
    _, said = ended(ranks, 0.0)
    assert [rank.returncode for rank in ranks] == [0, 0], said
