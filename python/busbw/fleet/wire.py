"""Lines of JSON between rank 0 and the other ranks of a fleet: who does not know the job's secret hears nothing.

Both prove the secret over two fresh nonces (HMAC-SHA-256) without sending it. Each side sends a line every second; one
that is silent for SILENT_S is lost, as one whose connection has closed.
"""

from __future__ import annotations

import hmac
import json
import secrets
import select
import socket
import time
from collections.abc import Mapping
from typing import Any

from busbw import __version__
from busbw.base.errors import UserError

BEAT_S = 1.0
SILENT_S = 7.0
ASLEEP_S = 2.0
"""Who was not on a processor for so long takes its own gap for nobody's silence."""
MOST_LINE = 4 << 20
MOST_GREETING = 1 << 16
"""Of one whom nobody knows yet: thousands may come."""
HANDSHAKE_S = 5.0


class LostError(Exception):
    """Why nothing more comes over a line."""


class GarbledError(LostError):
    """It says what no busbw says."""


class StrangerError(LostError):
    """How a caller was found out: a kind of busbw.fleet.door."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"a caller that is not of this job ({kind})")
        self.kind = kind


class Line:
    """One connection; used by one thread at a time."""

    def __init__(self, peer: socket.socket, silent_s: float = SILENT_S, most: int = 0) -> None:
        self.most, self.spoke = most, False
        peer.setblocking(False)
        self._socket = peer
        self._silent_s = silent_s
        self._poll = select.poll()  # select() knows no descriptor above 1023
        self._poll.register(peer.fileno(), select.POLLIN)
        self._pending = b""
        self._unsent = b""
        self._inbox: list[dict[str, Any]] = []
        self._heard = self._looked = time.monotonic()
        self._beaten = 0.0

    def fileno(self) -> int:
        """For select."""
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, message: dict[str, Any]) -> None:
        """Put a message on its way; LostError where the other side takes nothing any more."""
        self._unsent += json.dumps(message).encode() + b"\n"
        self.flush()

    def flush(self) -> bool:
        """Whether all is on its way."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError as problem:
            raise LostError(problem.strerror or "its connection failed") from None
        return not self._unsent

    def read(self, seconds: float) -> list[dict[str, Any]]:
        """What has come, after waiting up to so long for anything; heartbeats are sent and left out."""
        now = time.monotonic()
        if now - self._looked > ASLEEP_S + seconds:
            self._heard = now
        self._looked = now
        if now - self._beaten >= BEAT_S:
            self._beaten = now
            self.send({})
        self.flush()
        if self._poll.poll(seconds * 1000):
            self._receive()
        elif time.monotonic() - self._heard > self._silent_s:
            raise LostError(f"nothing was heard of it for {self._silent_s:g} s")
        return self._messages()

    def _receive(self) -> None:
        try:
            data = self._socket.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError as problem:
            raise LostError(problem.strerror or "its connection failed") from None
        if not data:
            raise LostError("its connection closed")
        self._heard = time.monotonic()
        self.spoke = True
        self._pending += data
        if len(self._pending) > (self.most or MOST_LINE):
            raise GarbledError("it sent a line without an end")

    def _messages(self) -> list[dict[str, Any]]:
        *lines, self._pending = self._pending.split(b"\n")
        found, self._inbox = [*self._inbox, *(message for message in map(_message, lines) if message)], []
        return found

    def first(self, seconds: float) -> dict[str, Any] | None:
        """One message; what came with it is read next."""
        found = self.read(0.0 if self._inbox else seconds)
        self._inbox = found[1:]
        return found[0] if found else None


def _message(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise GarbledError("it sent what is no message")
    return found


def listed(message: Mapping[str, Any], name: str) -> list[Any]:
    """A member that is a list; empty where it is not there."""
    found = message.get(name, [])
    if not isinstance(found, list):
        raise LostError(f"its `{name}` is no list")
    return found


def _same(one: object, other: str) -> bool:
    return hmac.compare_digest(str(one).encode(errors="replace"), other.encode())


def _proof(secret: str, label: str, *parts: str) -> str:
    return hmac.new(secret.encode(), "\n".join([label, *parts]).encode(), "sha256").hexdigest()


def _expect(line: Line, deadline: float) -> dict[str, Any]:
    while time.monotonic() < deadline:
        if (message := line.first(0.1)) is not None:
            return message
    raise LostError("it did not answer")


def call(peer: socket.socket, secret: str, introduction: dict[str, Any]) -> Line:
    """A rank's side: the line, once both have proved what they know. UserError where rank 0 refuses us."""
    line, end = Line(peer), time.monotonic() + HANDSHAKE_S
    nonce, said = secrets.token_hex(16), json.dumps({**introduction, "version": __version__})
    theirs = str(_expect(line, end).get("nonce", ""))
    line.send({"nonce": nonce, "said": said, "proof": _proof(secret, "rank", theirs, nonce, said)})
    answer = _expect(line, end)
    if not _same(answer.get("proof"), _proof(secret, "rank 0", theirs, nonce)):
        raise LostError("it does not know this job's secret")
    if why := answer.get("refused"):
        raise UserError(str(why))
    return line


class Greeting:
    """Rank 0's side of a call that has begun: fed until the caller is known or dropped."""

    def __init__(self, peer: socket.socket, secret: str) -> None:
        self.line = Line(peer, most=MOST_GREETING)
        self._secret = secret
        self._nonce, self._theirs = secrets.token_hex(16), ""
        self._end = time.monotonic() + HANDSHAKE_S
        self.line.send({"nonce": self._nonce})

    def listen(self) -> dict[str, Any] | None:
        """Who it is, once it is proved; LostError for a stranger."""
        try:
            message = self.line.first(0.0)
        except GarbledError:
            raise StrangerError("not_busbw") from None
        except LostError:
            raise StrangerError("unfinished") from None
        if message is None:
            if time.monotonic() > self._end:
                raise StrangerError("unfinished" if self.line.spoke else "silent")
            return None
        nonce, said = str(message.get("nonce")), str(message.get("said"))
        if not _same(message.get("proof"), _proof(self._secret, "rank", self._nonce, nonce, said)):
            raise StrangerError("wrong_secret")
        self._theirs = nonce
        return _message(said.encode())

    def answer(self, refused: str = "") -> Line:
        """Our own proof, and whether the caller may stay."""
        proof = _proof(self._secret, "rank 0", self._nonce, self._theirs)
        self.line.send({"proof": proof, **({"refused": refused} if refused else {})})
        self.line.most = 0
        return self.line
