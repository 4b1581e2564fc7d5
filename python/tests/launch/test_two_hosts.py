"""Two hosts as two network namespaces, with addresses and names of their own: they meet, and a lost one is named."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.records import read_record

SOURCE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUSBW_BUILD", SOURCE.parent / "build"))
ENGINE = BUILD / "bin" / "busbw-engine"
ADDRESSES = ("10.213.77.1", "10.213.77.2")
NAMES = ("hosta", "hostb")
ENDLESS = ("-b", "1M", "-e", "1M", "-n", "5", "-c", "0", "-N", "0")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


class Hosts:
    """The two namespaces and the cable between them."""

    def __init__(self) -> None:
        self.spaces = tuple(f"busbw{os.getpid()}{name}" for name in NAMES)
        self.running: list[subprocess.Popen[str]] = []

    def build(self) -> None:
        for space in self.spaces:
            ip("netns", "add", space)
        ip(
            "link",
            "add",
            "cable",
            "netns",
            self.spaces[0],
            "type",
            "veth",
            "peer",
            "name",
            "cable",
            "netns",
            self.spaces[1],
        )
        for space, address in zip(self.spaces, ADDRESSES, strict=True):
            ip("-n", space, "addr", "add", f"{address}/24", "dev", "cable")
            for device in ("cable", "lo"):
                ip("-n", space, "link", "set", device, "up")

    def unplug(self, host: int) -> None:
        ip("-n", self.spaces[host], "link", "set", "cable", "down")

    def start(self, host: int, record: Path, *words: str, **settings: str) -> subprocess.Popen[str]:
        """`busbw all_reduce` as one rank on that host, started by nobody's launcher."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(SOURCE),
            "BUSBW_ENGINE": str(ENGINE),
            "BUSBW_RANK": str(host),
            "BUSBW_WORLD_SIZE": "2",
            "BUSBW_SECRET": "of this test",
            "BUSBW_ADDRESS": ADDRESSES[0],
            "BUSBW_HOSTS": ",".join(NAMES),
            **settings,
        }
        inside = ["unshare", "--uts", "sh", "-c", 'hostname "$1" && shift && exec "$@"', "sh", NAMES[host]]
        argv = [sys.executable, "-m", "busbw", "all_reduce", *words, "--record", str(record)]
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.spaces[host], *inside, *argv],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.running.append(process)
        return process

    def close(self) -> None:
        for process in self.running:
            process.kill()
            process.communicate()
        for space in self.spaces:
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "del", space)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    if not ENGINE.exists():
        pytest.skip(f"the engine is not built in {BUILD}")
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("ip (iproute2) or unshare (util-linux) is not installed")
    both = Hosts()
    try:
        try:
            both.build()
        except subprocess.CalledProcessError as problem:
            pytest.skip(f"no network namespaces are permitted here: {problem.stderr.decode().strip()}")
        yield both
    finally:
        both.close()


def wait_for_cases(record: Path) -> None:
    end = time.monotonic() + 60
    while not record.exists() or record.read_bytes().count(b'"case"') < 3:
        assert time.monotonic() < end, "the hosts did not meet"
        time.sleep(0.05)


def test_two_hosts_meet_at_an_address_on_an_interface_in_a_range_of_ports(hosts: Hosts, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    ports = {"BUSBW_PORT_RANGE": "22000-22007"}
    words = ("-b", "64", "-e", "64", "-n", "2")
    pair = [hosts.start(0, record, *words, BUSBW_INTERFACE="cable", **ports), hosts.start(1, record, *words, **ports)]
    said = [process.communicate(timeout=60)[1] for process in pair]
    assert [process.returncode for process in pair] == [0, 0], said
    assert [rank.host for rank in read_record(record).run.ranks] == list(NAMES)


def test_a_host_that_is_unplugged_in_mid_run_is_named_within_10_s(hosts: Hosts, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    pair = [hosts.start(host, record, *ENDLESS) for host in (0, 1)]
    wait_for_cases(record)
    unplugged = time.monotonic()
    hosts.unplug(1)
    said = [process.communicate(timeout=60)[1] for process in pair]
    assert time.monotonic() - unplugged < 10
    assert all(process.returncode not in {0, None} for process in pair)
    assert "on host hostb) was lost" in said[0]
    assert "on host hosta) was lost" in said[1]
    kept = read_record(record)
    assert kept.cases and kept.end and kept.end.outcome == "failed" and "hostb" in (kept.end.reason or "")


def test_a_host_from_which_nobody_came_is_named(hosts: Hosts, tmp_path: Path) -> None:
    alone = hosts.start(0, tmp_path / "record.jsonl", "-b", "64", "-e", "64", BUSBW_JOIN_TIMEOUT="2")
    _, said = alone.communicate(timeout=60)
    assert alone.returncode not in {0, None}
    assert "hostb" in said and "Traceback" not in said


def test_an_interface_that_does_not_exist_is_one_sentence(hosts: Hosts, tmp_path: Path) -> None:
    alone = hosts.start(0, tmp_path / "record.jsonl", "-b", "64", "-e", "64", BUSBW_INTERFACE="nowhere0")
    _, said = alone.communicate(timeout=60)
    assert alone.returncode not in {0, None}
    assert "nowhere0" in said
