"""Clues of what one rank does other than the rest, and what must not be taken for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from .asked import logs_of, loud

LOGS = logs_of("f167-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("short-last-batch-of-a-shard", "the last batch of rank 2 is shorter", "drop_last=True"),
        ("batch-without-audio", "rank 1 leaves out a part of the model", "a dummy one"),
        ("two-ways-without-a-word", "rank 3 calls BROADCAST (update, trainer.py:204)", "broadcast it"),
        ("rank-reads-from-a-bucket", "rank 5 waits for an answer over the network", "timeout="),
        ("full-state-on-all-ranks", "each rank puts the full state of the model into host memory", "rank0_only=True"),
        ("one-gpu-for-the-tasks-of-a-node", "Slurm gives each node 2 GPUs", "--gpus-per-node=8"),
        ("store-went-with-its-node", "which also had the rendezvous store", "a machine that stays"),
        ("packages-of-two-hosts", "(2.22.3 on crane1, 2.19.3 on crane2)", "same NCCL on all hosts"),
        ("two-releases-by-their-words", "2.21 or newer on crane1", "same NCCL on all hosts"),
        ("extension-of-one-node", "4 of 8 processes met", "--force-reinstall"),
    ],
)
def test_what_stands_beside_an_error_tells_what_one_rank_did(name: str, title: str, fix: str, tmp_path: Path) -> None:
    (found,) = loud(LOGS[name], tmp_path)
    assert title in found.title and fix in found.fix


@pytest.mark.parametrize(
    ("name", "words", "others", "title"),
    [
        # Batches by tokens have any size on each rank.
        ("short-last-batch-of-a-shard", "torch.Size([64, 768])", "torch.Size([{rank}7, 768])", "shorter"),
        ("short-last-batch-of-a-shard", "[48, 768]", "[64, 768]", "shorter"),
        ("batch-without-audio", "rank 1: no audio in this batch, skip audio_tower", "rank 1: loss 1", "leaves out"),
        ("rank-reads-from-a-bucket", "py-spy dump of rank 5", "py-spy dump of rank 2", "over the network"),
        ("full-state-on-all-ranks", "rank0_only=False", "rank0_only=True", "each rank puts"),
        ("one-gpu-for-the-tasks-of-a-node", "--gpus-per-node=2", "--gpus-per-node=8", "Slurm gives"),
        ("one-gpu-for-the-tasks-of-a-node", "--gpus-per-node=2", "--gpus-per-task=1", "Slurm gives"),
        (
            "store-went-with-its-node",
            "mae-worker-0.mae:29400",
            "etcd-client:2379",
            "which also had the rendezvous store",
        ),
        ("packages-of-two-hosts", "libnccl-2.19.3", "libnccl-2.22.3", "different releases"),
        ("extension-of-one-node", "_ZNK3c105Error4whatEv", "PyUnicode_New", "another PyTorch"),
    ],
)
def test_other_words_are_no_such_clue(name: str, words: str, others: str, title: str, tmp_path: Path) -> None:
    log = LOGS[name]
    assert words in log
    if "{rank}" in others:
        for rank in range(4):
            log = log.replace(f"rank {rank}: step 639 text_feats={words}", f"rank {rank}: step 639 text_feats={others}")
            log = log.replace("{rank}", str(rank + 1))
    else:
        log = log.replace(words, others)
    assert not any(title in each.title for each in loud(log, tmp_path))
