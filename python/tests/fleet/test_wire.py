"""Lines between the ranks of a fleet: both prove the job's secret, nothing is lost, and who is silent is lost."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.base.errors import UserError
from busbw.fleet import wire
from busbw.fleet.hand import do_wave, read_task
from busbw.fleet.trial import Trial
from busbw.fleet.wire import Greeting, Line, LostError, call
from busbw.fleet.words import Launching


def answering(peer: socket.socket, secret: str, refused: str = "") -> Callable[[], tuple[list[Any], str]]:
    """Rank 0's side in a thread; what it learnt, and why it dropped the caller."""
    found: list[Any] = []
    why: list[str] = []

    def greet() -> None:
        try:
            greeting = Greeting(peer, secret)
            while not found:
                if introduction := greeting.listen():
                    found.append(introduction)
            greeting.answer(refused).send({"do": "end"})
        except LostError as lost:
            why.append(str(lost))
            peer.close()

    thread = threading.Thread(target=greet, daemon=True)
    thread.start()

    def result() -> tuple[list[Any], str]:
        thread.join(10)
        return found, "".join(why)

    return result


def test_both_learn_who_the_other_is_and_what_came_at_once_is_read_next() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        result = answering(theirs, "s")
        line = call(ours, "s", {"rank": 3})
        assert result()[0][0]["rank"] == 3
        assert line.first(5.0) == {"do": "end"}


def test_who_knows_another_secret_learns_nothing() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        result = answering(theirs, "s")
        with pytest.raises(LostError):
            call(ours, "t", {"rank": 3})
        assert result() == ([], "a caller that is not of this job (wrong_secret)")


def test_a_rank_does_nothing_for_a_rank_0_that_cannot_prove_itself() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b'{"nonce": "1"}\n{"proof": "0"}\n')
        with pytest.raises(LostError, match="does not know this job's secret"):
            call(ours, "s", {"rank": 3})


def test_a_refusal_is_its_sentence() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        answering(theirs, "s", "two of you")
        with pytest.raises(UserError, match="two of you"):
            call(ours, "s", {"rank": 3})


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.0\n", b"[1]\n", b"[" * 100_000 + b"\n", b"\xff\xfe\n"])
def test_what_is_no_message_ends_the_line(sent: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(sent)
        line = Line(ours)
        with pytest.raises(LostError, match="no message"):
            for _ in range(10):
                line.read(0.0)


def test_who_is_silent_is_lost_but_not_by_our_own_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(wire.time, "monotonic", lambda: now[0])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        line = Line(ours)
        now[0] += 60.0  # we were not on a processor
        assert line.read(0.0) == []
        for _ in range(7):
            now[0] += 1.0
            assert line.read(0.0) == []
        now[0] += 0.5
        with pytest.raises(LostError, match="nothing was heard of it for 7 s"):
            line.read(0.0)
        assert json.loads(theirs.recv(4096).split(b"\n")[0]) == {}, "each side sends a line a second"


def test_a_line_without_an_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MOST_LINE", 1000)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        one = Line(ours)
        theirs.sendall(b"x" * 2000)
        with pytest.raises(LostError, match="a line without an end"):
            one.read(5)


def test_a_caller_that_says_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "HANDSHAKE_S", -1.0)
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(LostError, match="silent"):
        Greeting(ours, "s").listen()


def test_a_long_message_arrives_in_parts() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        one, other = Line(ours), Line(theirs)
        one.send({"tasks": ["x" * 1000] * 2000})
        end = time.monotonic() + 10
        found: list[Any] = []
        while not found and time.monotonic() < end:
            one.flush()
            found = other.read(0.01)
        assert len(found[0]["tasks"]) == 2000


TASK = {
    "kind": "within",
    "nodes": ["a", "b"],
    "channel": "rail0",
    "seat": 1,
    "repeats": 4,
    "address": "a:1",
    "secret": "s",
}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"seat": 2}, "a seat"),
        ({"seat": -1}, "a seat"),
        ({"seat": "0"}, "a seat"),
        ({"repeats": 0}, "a seat"),
        ({"repeats": 10**6}, "a seat"),
        ({"address": "a\nb"}, "a place to meet"),
        ({"secret": 7}, "a place to meet"),
        ({"nodes": ["a", "a"]}, "a stands twice"),
    ],
)
def test_a_task_that_is_none_is_not_begun(wrong: dict[str, Any], said: str) -> None:
    assert read_task(TASK) == (Trial("within", ("a", "b"), "rail0", 4), 1, "a:1", "s")
    with pytest.raises(LostError, match=said):
        read_task(TASK | wrong)


@pytest.mark.parametrize("limit", [None, "9", 0, -1, 8 * 86400, float("inf"), float("nan")])
def test_a_wave_without_an_end_is_not_begun(limit: object, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(LostError, match="without a limit"):
        do_wave(Line(ours), {"do": "wave", "limit": limit, "tasks": []}, Launching(tmp_path), tmp_path)
