"""Hands out turns between engines that measure at the same time, so that only one of them works at any moment."""

from __future__ import annotations

import os
import secrets
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

VARIABLE = "BUSBW_TURNS"
CYCLE, GO, ENOUGH = b"c", b"g", b"e"
_CHECK_EVERY_S = 0.2

StillRuns = Callable[[int], bool]


@dataclass
class _Player:
    """One engine: where it calls, and what it last asked for; nothing once it has ended."""

    listener: socket.socket
    setting: str
    end: socket.socket | None = None
    wants: bytes = b""


class Turns:
    """A Unix socket for each engine, without a file; it connects once and then asks for each turn with a byte.

    Nobody has a turn before all that run have asked for one: one that starts up would disturb the others.
    """

    def __init__(self, players: int) -> None:
        self._name = f"busbw-turns-{secrets.token_hex(16)}"
        self._players = [self._player(number, players) for number in range(players)]
        self.settings = [each.setting for each in self._players]
        self.late: set[int] = set()
        """Those that kept a turn longer than the limit."""

    def _player(self, number: int, players: int) -> _Player:
        name = f"{self._name}-{number}"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind("\0" + name)  # in no file system: a kill leaves nothing
        listener.listen(1)
        return _Player(listener, f"{players} @{name}")

    def __enter__(self) -> Turns:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._players:
            each.listener.close()
            self._forget(each)

    def gather(self, still_runs: StillRuns) -> list[int]:
        """Wait until every engine has asked for its first turn or ended; those that did ask."""
        for number, player in enumerate(self._players):
            while player.end is None and still_runs(number):
                if self._readable(player.listener):
                    end, _ = player.listener.accept()
                    if not _is_own_user(end):
                        end.close()
                        continue
                    player.end = end
                    self._asks(number, still_runs, time.monotonic() + 1e9)
        return [number for number, player in enumerate(self._players) if player.wants]

    def cycle(self, order: Sequence[int], still_runs: StillRuns, limit_s: float) -> dict[int, float]:
        """One cycle of these engines, row by row in this order: the seconds that each had the turn.

        An engine that has ended, or kept its turn longer than the limit, is left out from then on.
        """
        going = [number for number in order if self._players[number].wants]
        took = dict.fromkeys(order, 0.0)
        while going:
            for number in list(going):
                began = time.monotonic()
                self._say(number, GO)
                asks = self._asks(number, still_runs, began + limit_s)
                took[number] += time.monotonic() - began
                if not asks and time.monotonic() - began >= limit_s:
                    self.late.add(number)
                if not asks or self._players[number].wants == CYCLE:
                    going.remove(number)
        return took

    def waits(self, number: int) -> bool:
        """Whether it wants another turn."""
        return bool(self._players[number].wants)

    def end(self) -> None:
        """Enough is known: whoever waits for a turn ends in order."""
        for number, player in enumerate(self._players):
            if player.wants:
                self._say(number, ENOUGH)

    def _say(self, number: int, word: bytes) -> None:
        end = self._players[number].end
        with suppress(OSError):  # it has just ended; its socket then says so
            if end is not None:
                end.sendall(word)

    def _asks(self, number: int, still_runs: StillRuns, until: float) -> bool:
        """Wait until it wants a turn; False once it has ended or the time is up."""
        player = self._players[number]
        player.wants = b""
        assert player.end is not None
        while not self._readable(player.end):
            if not still_runs(number) or time.monotonic() > until:
                self._forget(player)
                return False
        with suppress(OSError):
            player.wants = player.end.recv(1)
        if not player.wants:
            self._forget(player)
        return bool(player.wants)

    @staticmethod
    def _forget(player: _Player) -> None:
        player.wants = b""
        if player.end is not None:
            player.end.close()

    @staticmethod
    def _readable(end: socket.socket) -> bool:
        return bool(select.select([end], [], [], _CHECK_EVERY_S)[0])


def _is_own_user(end: socket.socket) -> bool:
    """Whether the kernel says that this user is at the other end: such a socket has no permissions."""
    credentials = struct.Struct("3i")  # struct ucred: process, user, group
    return bool(
        credentials.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size))[1] == os.geteuid()
    )
