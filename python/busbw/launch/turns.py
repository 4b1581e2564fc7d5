"""Hands out turns between engines that measure at the same time, so that only one of them works at any moment."""

from __future__ import annotations

import select
import socket
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

VARIABLE = "BUSBW_TURNS"
_CHECK_EVERY_S = 0.2


class Turns:
    """A Unix socket in a folder of its own; every engine connects once and then asks for each turn with a byte."""

    def __init__(self, players: int) -> None:
        self._players = players
        self._folder = tempfile.TemporaryDirectory(prefix="busbw-turns-")
        path = Path(self._folder.name) / "socket"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(players)
        self.setting = f"{players} {path}"

    def __enter__(self) -> Turns:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self._folder.cleanup()

    def hand_out(self, still_runs: Callable[[], int]) -> None:
        """Give turns round robin until every engine has gone; `still_runs` counts those that have not ended.

        Nobody has a turn before all that still run have asked for one: one that starts up would disturb the others.
        """
        waiting: list[socket.socket] = []
        while len(waiting) < min(self._players, still_runs()):
            if self._readable(self._listener):
                player, _ = self._listener.accept()
                if self._asks(player, still_runs):
                    waiting.append(player)
        while waiting:
            player = waiting.pop(0)
            with suppress(OSError):  # it has just ended; its socket then says so
                player.sendall(b"g")
            if self._asks(player, still_runs):
                waiting.append(player)

    def _asks(self, player: socket.socket, still_runs: Callable[[], int]) -> bool:
        """Wait until it wants a turn; False once it has ended."""
        while not self._readable(player):
            if not still_runs():
                player.close()
                return False
        with suppress(OSError):
            if player.recv(1):
                return True
        player.close()
        return False

    @staticmethod
    def _readable(end: socket.socket) -> bool:
        return bool(select.select([end], [], [], _CHECK_EVERY_S)[0])
