"""Strangers at the ranks' meeting place are refused, counted and told, and disturb nothing."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ENGINE = Path(os.environ.get("BUSBW_BUILD") or ROOT / "build") / "bin" / "busbw-engine"

pytestmark = pytest.mark.skipif(not ENGINE.exists(), reason="the engine is not built")


def rank(number: int, port: int, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "BUSBW_RANK": str(number), "BUSBW_WORLD_SIZE": "2", "BUSBW_SECRET": "of this job",
                   "BUSBW_ADDRESS": f"127.0.0.1:{port}", "BUSBW_JOIN_TIMEOUT": "30"}  # fmt: skip
    command = [str(ENGINE), "all_reduce", "-b", "8", "-e", "8", "-n", "1", "-w", "0", "--library", "cpu", *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def call(port: int) -> socket.socket:
    for _ in range(2000):
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=20)
        except ConnectionRefusedError:
            time.sleep(0.01)
    raise AssertionError("process 0 never listened")


def free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        port: int = door.getsockname()[1]
        return port


def test_strangers_are_told_at_the_end_and_kept_in_the_record(tmp_path: Path) -> None:
    port = free_port()
    record = tmp_path / "record.jsonl"
    first = rank(0, port, "--record", str(record))
    for _ in range(3):
        with call(port) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            while stranger.recv(100):
                pass
    silent = call(port)
    second = rank(1, port)
    said, told = first.communicate(timeout=60)[1], second.communicate(timeout=60)[1]
    silent.close()
    assert (first.returncode, second.returncode) == (0, 0), said + told
    assert said.splitlines()[-1] == (
        "busbw: 4 connections that were not of this job were refused (3 not busbw, 1 silent)"
    ), said
    assert "refused" not in told
    end = json.loads(record.read_text().splitlines()[-1])
    assert (end["outcome"], end["strangers"]) == ("completed", {"not_busbw": 3, "silent": 1})


def test_nobody_is_told_where_nobody_came(tmp_path: Path) -> None:
    port = free_port()
    record = tmp_path / "record.jsonl"
    ranks = [rank(0, port, "--record", str(record)), rank(1, port)]
    said = [each.communicate(timeout=60)[1] for each in ranks]
    assert [each.returncode for each in ranks] == [0, 0], said
    assert not any("refused" in text for text in said)
    assert "strangers" not in record.read_text()
