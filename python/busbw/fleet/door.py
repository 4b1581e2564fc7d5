"""Where the ranks of a fleet come in: strangers are counted, told at the end and not waited for.

Callers that have not proved anything yet are at most MOST_CALLERS. Where more come, who has said nothing for CROWD_S is
dropped for the next, so that thousands of idle connections hold no rank up; a rank that was dropped so calls again.
"""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from busbw.fleet.wire import Greeting, LostError, StrangerError

MOST_CALLERS = 512
CROWD_S = 0.3
KINDS = {
    "wrong_secret": "wrong secret", "not_busbw": "not busbw", "silent": "silent",
    "unfinished": "stopped in mid-greeting", "crowded": "dropped in a crowd",
    "another_job": "of a job of another size, or a rank that had come",
}  # fmt: skip
"""As the engine's meeting place has them (engine/core/strangers.h)."""


@dataclass
class Caller:
    """A connection whose other side has not said who it is; addresses are its own and that which it called."""

    greeting: Greeting
    theirs: str
    ours: str
    since: float = field(default_factory=time.monotonic)


class Door:
    """Used by one thread; `strangers` is read by others."""

    def __init__(self, listener: socket.socket, secret: str) -> None:
        self._listener, self._secret = listener, secret
        self._callers: list[Caller] = []
        self.strangers: Counter[str] = Counter()

    def descriptors(self) -> Iterator[int]:
        """What to wait for: the listener too where another caller finds room, else it would wake us for nothing."""
        if self._has_room():
            yield self._listener.fileno()
        yield from (each.greeting.line.fileno() for each in self._callers)

    def _has_room(self) -> bool:
        full = len(self._callers) >= MOST_CALLERS
        return not full or time.monotonic() - self._callers[0].since > CROWD_S

    def accept(self) -> None:
        """Let in who waits outside; the oldest go first where there are too many."""
        with suppress(BlockingIOError, OSError):
            while self._has_room():
                peer, _ = self._listener.accept()
                if len(self._callers) >= MOST_CALLERS:
                    self.refuse(self._callers[0], "crowded")
                try:
                    theirs, ours = _plain(peer.getpeername()[0]), _plain(peer.getsockname()[0])
                    self._callers.append(Caller(Greeting(peer, self._secret), theirs, ours))
                except (LostError, OSError):  # it has gone already
                    peer.close()
                    self.strangers["unfinished"] += 1

    def known(self) -> Iterator[tuple[Caller, Mapping[str, Any]]]:
        """Those that have proved that they know the secret, and what they say of themselves."""
        for caller in list(self._callers):
            try:
                introduction = caller.greeting.listen()
            except StrangerError as stranger:
                self.refuse(caller, stranger.kind)
            except LostError:
                self.refuse(caller, "unfinished")
            else:
                if introduction is not None:
                    self._callers.remove(caller)
                    yield caller, introduction

    def refuse(self, caller: Caller, kind: str) -> None:
        """Count it, and close its connection."""
        self.strangers[kind] += 1
        caller.greeting.line.close()
        with suppress(ValueError):
            self._callers.remove(caller)

    def close(self) -> None:
        """Nobody comes in any more."""
        for caller in self._callers:
            caller.greeting.line.close()
        self._callers.clear()
        self._listener.close()

    def sentence(self) -> str:
        """What is told at the end; empty where no stranger came."""
        return sentence_of(self.strangers)


def sentence_of(strangers: Mapping[str, int]) -> str:
    """3 connections that were not of this job were refused (2 wrong secret, 1 silent)."""
    total = sum(strangers.values())
    if not total:
        return ""
    kinds = ", ".join(f"{strangers[kind]} {words}" for kind, words in KINDS.items() if strangers.get(kind))
    what, were = ("connection that was", "was") if total == 1 else ("connections that were", "were")
    return f"{total:,} {what} not of this job {were} refused ({kinds})"


def _plain(address: str) -> str:
    """::ffff:10.0.0.4 is 10.0.0.4; a zone is of one machine alone."""
    return address.removeprefix("::ffff:").partition("%")[0]
