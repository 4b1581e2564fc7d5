"""Turns between engines: nobody before all are ready, one at a time, and those that end are left out."""

from __future__ import annotations

import socket
import threading
import time

from busbw.launch.turns import Turns


class Player(threading.Thread):
    """Stands for an engine: takes turns, and notes when it had them."""

    def __init__(self, turns: Turns, name: str, rows: int, log: list[str], start_up_s: float = 0) -> None:
        super().__init__(name=name)
        self.turns, self.rows, self.log, self.start_up_s = turns, rows, log, start_up_s

    def run(self) -> None:
        time.sleep(self.start_up_s)
        _, path = self.turns.setting.split(" ", 1)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
            end.connect(path)
            for _ in range(self.rows):
                end.sendall(b"r")
                if end.recv(1) != b"g":
                    self.log.append("lost")
                self.log.append(self.name)


def play(*players: tuple[str, int, float]) -> str:
    log: list[str] = []
    with Turns(len(players)) as turns:
        threads = [Player(turns, name, rows, log, start_up_s) for name, rows, start_up_s in players]
        for thread in threads:
            thread.start()
        turns.hand_out(lambda: sum(thread.is_alive() for thread in threads))
        for thread in threads:
            thread.join()
    return "".join(log)


def test_turns_go_round() -> None:
    assert play(("a", 3, 0), ("b", 3, 0.05)) in {"ababab", "bababa"}


def test_nobody_has_a_turn_before_all_have_started() -> None:
    assert play(("a", 2, 0), ("b", 2, 0.3)) == "abab"


def test_one_that_ends_early_is_left_out() -> None:
    assert play(("a", 1, 0), ("b", 3, 0.05)).count("b") == 3


def test_one_that_never_asks_does_not_hold_up_the_others() -> None:
    assert play(("a", 2, 0), ("b", 0, 0.05)) == "aa"
