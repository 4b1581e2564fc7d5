"""Ranks that NCCL refuses without a reason, and ranks that wait: what stands beside it tells which, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from .asked import is_claimed, is_told_first, logs_of

LOGS = logs_of("f175-")
REFUSED = """\
  File "/opt/py/lib/python3.8/site-packages/raft/dask/common/comms.py", line 507, in _func_init_nccl
RuntimeError: NCCL_ERROR: b'invalid usage'
"""


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("all-that-speak-alike", "without a gap from rank 0 to 3", "NCCL_P2P_DISABLE=1"),
        ("first-rank-silent", "and rank 0 alone of these 4 does not say so", "py-spy dump --pid PID of rank 0"),
        ("first-rank-silent", "rank 1, 2, 3 waited", "RTX 4090 cards have no P2P"),
        ("build-of-old-cuda", "this build of NCCL (2.18.5+cuda11.0) cannot be captured", "--enforce-eager"),
        ("ranks-with-gap", "2 workers have the ranks 1, 3", "CUDA_VISIBLE_DEVICES=1,3"),
        ("rank-counted-from-one", "rank 2 of 2, and NCCL takes 0 to 1 alone", "number the ranks from 0"),
        ("workers-of-one-gpu", "2 workers of one host were started for the same GPU", "one worker or rank per GPU"),
        ("one-card-for-all", "most likely several ranks share one GPU", "one worker or rank per GPU"),
        ("device-after-communicator", "before it chooses the rank's GPU", "choose the device first"),
        ("refused-at-init", "most often two ranks have one GPU", "a GPU of its own"),
        ("pod-came-late", "worker-1 came late, as its pod waited for a node", "gang scheduling"),
        ("images-cached-by-first", "rank 0 still prepares the data", "init_process_group(timeout=)"),
        ("store-of-another-job", "Jobs with --standalone on one node share the store", "--rdzv_endpoint=localhost:0"),
        ("store-of-first-node-gone", "in the midst of the job", "see how that launcher ended"),
        ("counts-arrive-as-zero", "rank 0 itself has 310 parameters", "all_reduce_perf"),
        ("killed-behind-command", "most often as the host's memory", "dmesg -T"),
        ("vgpu-by-name", "unified memory (UVM) off", "enable_uvm"),
    ],
)
def test_what_stands_beside_it_tells_the_cause(name: str, title: str, fix: str, tmp_path: Path) -> None:
    assert is_told_first(LOGS[name], tmp_path, title, fix)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("share one GPU", f"On a single GPU it works, with two workers it fails.\n{REFUSED}"),
        ("share one GPU", f"With only one GPU it runs fine; three workers do not.\n{REFUSED}"),
        (
            "same GPU",
            f"Register worker tcp://10.4.0.9:1, name: 10.4.0.9-0\nRegister worker x, name: 10.4.0.9-1\n{REFUSED}",
        ),
        ("out of range", f"args: {{'a': {{'rank': 1, 'port': 1}}, 'b': {{'rank': 0, 'port': 2}}}}\n{REFUSED}"),
        ("out of range", f"node rank 2, world_size=2\n{REFUSED}"),
        ("before it chooses", f"cupy.cuda.Device(me).use()\ncomm = nccl.NcclCommunicator(4, ident, me)\n{REFUSED}"),
    ],
)
def test_what_only_looks_like_it_decides_nothing(words: str, text: str, tmp_path: Path) -> None:
    assert not is_claimed(words, text, tmp_path)


def test_of_two_ranks_of_many_nobody_says_that_none_lags(tmp_path: Path) -> None:
    text = "world_size=8\n" + "\n".join(LOGS["all-that-speak-alike"].splitlines()[:2])
    assert not is_claimed("none lags", text, tmp_path)
