"""Turns between engines: nobody before all are ready, cycle by cycle, and those that end are left out."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from pathlib import Path

import pytest

from busbw.launch.turns import Turns


class Player(threading.Thread):
    """Stands for an engine: asks for a cycle, then for rows, and notes when it had a turn."""

    def __init__(self, setting: str, name: str, rows: int, log: list[str], start_up_s: float = 0) -> None:
        super().__init__(name=name, daemon=True)
        self.setting, self.rows, self.log, self.start_up_s = setting, rows, log, start_up_s
        self.cycles = 3
        self.heard = b""
        self.dawdles_s = 0.0

    def run(self) -> None:
        time.sleep(self.start_up_s)
        _, path = self.setting.split(" ", 1)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
            end.connect(path.replace("@", "\0", 1))
            for number in range(self.rows * self.cycles):
                try:
                    end.sendall(b"r" if number % self.rows else b"c")
                    self.heard = end.recv(1)
                except OSError:  # left out
                    return
                if self.heard != b"g":
                    return
                self.log.append(self.name)
                time.sleep(self.dawdles_s)


def play(*players: tuple[str, int, float], cycles: int = 1) -> tuple[str, list[Player]]:
    log: list[str] = []
    with Turns(len(players)) as turns:
        threads = [
            Player(setting, name, rows, log, start_up_s)
            for setting, (name, rows, start_up_s) in zip(turns.settings, players, strict=True)
        ]
        for thread in threads:
            thread.start()

        def alive(number: int) -> bool:
            return threads[number].is_alive()

        there = turns.gather(alive)
        for _ in range(cycles):
            turns.cycle(there, alive, 60)
            log.append(".")
        turns.end()
        for thread in threads:
            thread.join(10)
    return "".join(log), threads


def test_turns_go_round_in_the_order_of_the_round() -> None:
    assert play(("a", 3, 0.05), ("b", 3, 0))[0] == "ababab."


def test_a_cycle_ends_where_the_next_begins_and_enough_ends_all() -> None:
    said, players = play(("a", 2, 0), ("b", 2, 0), cycles=2)
    assert said == "abab.abab."
    assert [each.heard for each in players] == [b"e", b"e"]


def test_nobody_has_a_turn_before_all_have_started() -> None:
    assert play(("a", 2, 0), ("b", 2, 0.3))[0] == "abab."


def test_one_with_fewer_rows_waits_for_the_next_cycle() -> None:
    assert play(("a", 1, 0), ("b", 3, 0.05), cycles=2)[0] == "abbb.abbb."


def test_one_that_never_asks_does_not_hold_up_the_others() -> None:
    assert play(("a", 2, 0), ("b", 0, 0.05))[0] == "aa."


def test_one_that_keeps_its_turn_is_left_out_and_named() -> None:
    with Turns(2) as turns:
        log: list[str] = []
        players = [Player(setting, name, 2, log) for setting, name in zip(turns.settings, "ab", strict=True)]
        players[1].dawdles_s = 2.0
        for each in players:
            each.start()
        there = turns.gather(lambda _: True)
        took = turns.cycle(there, lambda _: True, 0.3)
        assert turns.late == {1}
        assert took[1] >= 0.3
        assert "".join(log) == "aba"
        turns.cycle(there, lambda _: True, 0.3)
        assert "".join(log) == "abaaa"
        turns.end()


def test_turns_make_no_file_that_a_kill_could_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Turns(2) as turns:
        assert [setting.split(" ")[1][:13] for setting in turns.settings] == ["@busbw-turns-"] * 2
        assert not list(tmp_path.iterdir())
