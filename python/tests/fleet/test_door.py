"""Strangers at a fleet's door: garbage, silence, slow and half-open callers, replays, wrong secrets; no rank waits."""

from __future__ import annotations

import json
import resource
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from busbw.fleet import wire
from busbw.fleet.crew import Crew
from busbw.fleet.door import KINDS, MOST_CALLERS, Door, sentence_of
from busbw.fleet.wire import LostError, call

SECRET = "of this job"
SOON_S = 6.0  # without strangers a rank joins after 0.1 s; the rest is for a loaded machine


@contextmanager
def opened(size: int, folder: Path) -> Iterator[tuple[Crew, int]]:
    """Rank 0 of a fleet, and the port of its door."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    listener.setblocking(False)
    port = listener.getsockname()[1]
    with Crew(listener, SECRET, size, "n0", folder) as crew:
        yield crew, port
        crew.gather(0.0)


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 5.0)


def calls(port: int, secret: str, said: dict[str, object]) -> wire.Line:
    peer = connected(port)
    try:
        return call(peer, secret, said)
    except LostError:
        peer.close()
        raise


def joins(port: int, rank: int) -> tuple[wire.Line, float]:
    """A genuine rank, which calls again as take_part does; how long it took."""
    began = time.monotonic()
    while time.monotonic() - began < 20:
        with suppress(LostError, OSError):
            line = calls(port, SECRET, {"rank": rank, "host": f"n{rank}", "trouble": ""})
            return line, time.monotonic() - began
        time.sleep(0.05)
    raise AssertionError("the rank does not come in")


def wait_for(crew: Crew, **counts: int) -> None:
    end = time.monotonic() + 20
    while any(crew.door.strangers[kind] < count for kind, count in counts.items()):
        assert time.monotonic() < end, dict(crew.door.strangers)
        time.sleep(0.02)


def wait_for_ranks(crew: Crew, count: int) -> None:
    """A rank hears that it may stay before the crew has it among its ranks."""
    end = time.monotonic() + 20
    while len(crew.ranks) < count:
        assert time.monotonic() < end, crew.missing()
        time.sleep(0.02)


def test_two_thousand_idle_connections_hold_no_rank_up(tmp_path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = 2000 if hard in {resource.RLIM_INFINITY} or hard > 6000 else 600
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8000), hard))
    try:
        with ExitStack() as stack, opened(2, tmp_path) as (crew, port):
            for _ in range(count):
                stack.enter_context(closing(connected(port)))
            line, took = joins(port, 1)
            stack.callback(line.close)
            assert took < SOON_S
            assert crew.gather(5.0) == ("n0", "n1")
            wait_for(crew, silent=1)
            assert crew.door.strangers["crowded"] >= count - 2 * MOST_CALLERS
            assert crew.door.sentence().endswith("dropped in a crowd)")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_every_kind_is_counted_and_none_delays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "HANDSHAKE_S", 1.0)
    heard: list[bytes] = []
    with ExitStack() as stack, opened(3, tmp_path) as (crew, port):
        garbage, endless, slow, half, reset, silent = (stack.enter_context(closing(connected(port))) for _ in range(6))
        garbage.sendall(b"\x16\x03\x01GET / HTTP/1.1\r\n\r\n")
        stop = threading.Event()

        def flood() -> None:
            with suppress(OSError):
                while not stop.is_set():
                    endless.sendall(b"x" * 65536)

        def trickle() -> None:
            with suppress(OSError):
                while not stop.is_set():
                    slow.sendall(b"{")
                    time.sleep(0.1)

        threads = [threading.Thread(target=each) for each in (flood, trickle)]
        for each in threads:
            each.start()
        half.sendall(b'{"nonce": "1"')
        half.shutdown(socket.SHUT_WR)
        reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        reset.sendall(b"{")
        reset.close()
        with pytest.raises(LostError):
            calls(port, "another job's", {"rank": 1, "host": "n1"})
        line, took = joins(port, 1)
        stack.callback(line.close)
        assert took < SOON_S
        heard.append(silent.recv(4096))  # what every caller gets
        wait_for(crew, wrong_secret=1, silent=1, unfinished=3, not_busbw=2)
        stop.set()
        for each in threads:
            each.join()
        told = crew.door.sentence()
        assert dict(crew.door.strangers) == {"wrong_secret": 1, "silent": 1, "unfinished": 3, "not_busbw": 2}
    assert SECRET.encode() not in heard[0] and list(json.loads(heard[0].splitlines()[0])) == ["nonce"]
    assert told == (
        "7 connections that were not of this job were refused "
        "(1 wrong secret, 2 not busbw, 1 silent, 3 stopped in mid-greeting)"
    )


def test_a_greeting_that_is_said_again_is_a_wrong_secret(tmp_path: Path) -> None:
    """The answer to one nonce proves nothing for another."""
    said: list[bytes] = []

    def listen_in(relay: socket.socket, port: int) -> None:
        peer, _ = relay.accept()
        with connected(port) as door, peer, suppress(OSError):
            while True:
                for ready in select.select([door, peer], [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    (peer if ready is door else door).sendall(data)
                    said.extend([data] if ready is peer else [])

    with opened(3, tmp_path) as (crew, port), socket.create_server(("127.0.0.1", 0)) as relay:
        thread = threading.Thread(target=listen_in, args=(relay, port))
        thread.start()
        calls(relay.getsockname()[1], SECRET, {"rank": 1, "host": "n1", "trouble": ""}).close()
        thread.join()
        wait_for_ranks(crew, 2)
        with connected(port) as again:
            again.sendall(b"".join(said))
            wait_for(crew, wrong_secret=1)


def test_a_rank_that_is_none_of_this_job_is_counted(tmp_path: Path) -> None:
    with opened(2, tmp_path) as (crew, port):
        with suppress(LostError):
            calls(port, SECRET, {"rank": 7, "host": "n7"})
        wait_for(crew, another_job=1)
        assert crew.door.sentence() == (
            "1 connection that was not of this job was refused (1 of a job of another size, or a rank that had come)"
        )


def test_a_full_door_does_not_wake_its_thread_for_nothing() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    listener.setblocking(False)
    door = Door(listener, SECRET)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 8000), before[1]))
    try:
        with ExitStack() as stack:
            for _ in range(MOST_CALLERS + 8):
                stack.enter_context(closing(connected(listener.getsockname()[1])))
            stack.callback(door.close)
            door.accept()
            assert len(list(door.descriptors())) == MOST_CALLERS
            assert listener.fileno() not in set(door.descriptors())
            time.sleep(0.4)
            assert listener.fileno() in set(door.descriptors())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_of_one_whom_nobody_knows_little_is_kept() -> None:
    theirs, ours = socket.socketpair()
    with theirs, ours:
        greeting = wire.Greeting(ours, SECRET)
        theirs.sendall(b"x" * (wire.MOST_GREETING + 1))
        with pytest.raises(wire.StrangerError, match="not_busbw"):
            for _ in range(20):
                greeting.listen()
                time.sleep(0.01)


def test_nobody_came_is_no_sentence() -> None:
    assert sentence_of({}) == ""
    assert set(KINDS) >= {"wrong_secret", "silent"}
