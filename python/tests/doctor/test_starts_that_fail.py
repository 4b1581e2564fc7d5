"""What stands beside a start that failed tells its cause: rails, rights of folders, addresses, executors, GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from .asked import is_claimed, is_told_first, logs_of

LOGS = logs_of("f176-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("rails-apart", "offers 3 EFA devices for device 2, and this one 4", "Drain the node that has fewer"),
        ("folder-of-keys", "rights of the directory /home/mpiuser/.ssh", "chmod 700"),
        ("empty-master", "no address of the first node (w-0.w.ml.svc)", "--master_addr=ADDRESS"),
        ("executor-of-one-host", "on this host alone (executor mp)", "--distributed-executor-backend ray"),
        ("four-on-one-gpu", "GPU 0 is full, as three or more processes use it", "local rank"),
        ("device-not-there", "a GPU that its host does not have", "-H a:4,b:4"),
        ("plugin-without-driver", "the device plugin's container sees no driver", "runtimeClassName"),
    ],
)
def test_a_start_that_failed_is_told_by_what_stands_beside_it(name: str, title: str, fix: str, tmp_path: Path) -> None:
    assert is_told_first(LOGS[name], tmp_path, title, fix)


@pytest.mark.parametrize(
    ("name", "words", "others", "title"),
    [
        ("empty-master", "address of  for", "address of 10.9.1.1 for", "no address of the first node"),
        ("four-on-one-gpu", "Process 813 has 15.10 GiB memory in use. ", "", "three or more processes"),
        ("folder-of-keys", "bad ownership or modes for directory", "no such key in", "StrictModes"),
    ],
)
def test_other_words_tell_no_such_cause(name: str, words: str, others: str, title: str, tmp_path: Path) -> None:
    assert words in LOGS[name]
    assert not is_claimed(title, LOGS[name].replace(words, others), tmp_path)
