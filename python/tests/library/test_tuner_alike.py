"""Tables that are damaged at random: the plugin applies one exactly where `busbw tune nccl` reads it."""

from __future__ import annotations

import ctypes
import os
import random
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.experiment.tune_nccl.rules import Place, Rule, Way, read_table, table_text

BUILD = Path(os.environ.get("BUSBW_BUILD", Path(__file__).parents[3] / "build"))
PLUGIN = BUILD / "lib" / "libnccl-tuner-busbw.so"

pytestmark = pytest.mark.skipif(not PLUGIN.exists(), reason="the tuner plugin is not built")

FACTS = {"nccl": "2.28.9", "gpu": "A b", "driver": "1", "topology": "0" * 16, "ranks": "4", "nodes": "1"}
WHOLE = table_text(
    [
        Place(
            FACTS,
            (
                Rule("all_reduce", 1, 5, Way("tree/ll", 4), (1.01, 1.2)),
                Rule("broadcast", 6, 9, Way("default", 0, 4096)),
            ),
        ),
        Place({**FACTS, "ranks": "8"}, (Rule("reduce", 1, 2, Way("ring/ll128")),)),
    ],
    ["a remark"],
)
WITHOUT_HASH = WHOLE[: WHOLE.rindex(" hash=")] + "\n"
WORDS = (
    "rule", " ", "\n", "end", "measured", "0", "-1", "+1", "01", "1_0", "gain=", "gain=x", "channels=64", "chunk=1",
    "=",
    "default", "tree/ll", " hash=", "\r", "\t", "\0", "\u00e9", "#", "18446744073709551616", "ranks 4\n", "  ", "/",
    "busbw-tuner 1\n", "\ufeff", "1e5", "\x0b", "\x85", "\u2028", "\x1c",
)  # fmt: skip

Logger = ctypes.CFUNCTYPE(
    None, ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p
)


class PluginV2(ctypes.Structure):
    """ncclTunerPlugin_v2, as far as a communicator begins and ends."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("init", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t, Logger, ctypes.c_void_p)),
        ("ask", ctypes.c_void_p),
        ("end", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)),
    )


class PluginV4(ctypes.Structure):
    """ncclTunerPlugin_v4, with what a communicator asks before each call."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("init", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)),
        (
            "ask",
            ctypes.CFUNCTYPE(
                ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p,
                ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p,
            ),
        ),
        ("end", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)),
    )  # fmt: skip


def damaged(chance: random.Random, texts: tuple[str, ...] = (WHOLE, WITHOUT_HASH, WITHOUT_HASH)) -> str:
    text = chance.choice(texts)
    for _ in range(chance.randrange(4)):
        at, kind = chance.randrange(len(text) + 1), chance.random()
        if kind < 0.4:
            text = text[:at] + chance.choice(WORDS) + text[at:]
        elif kind < 0.7:
            text = text[:at] + text[at + chance.randrange(1, 8) :]
        else:
            lines = text.split("\n")
            one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
            lines[one], lines[other] = lines[other], lines[one]
            text = "\n".join(lines)
    return text


def is_read(path: Path) -> bool:
    try:
        read_table(path)
    except UserError:
        return False
    return True


def test_the_plugin_and_busbw_read_the_same_tables(tmp_path: Path) -> None:
    said: list[str] = []
    logger = Logger(lambda *words: said.append(words[5].decode(errors="replace")))
    plugin = PluginV2.in_dll(ctypes.CDLL(str(PLUGIN)), "ncclTunerPlugin_v2")
    chance, read = random.Random(1), 0
    libc = ctypes.CDLL(None)
    try:
        for number in range(1500):
            # Each has a name of its own: a sentence is told once a process.
            path = tmp_path / str(number)
            path.write_bytes(damaged(chance).encode())
            libc.setenv(b"BUSBW_TUNER_TABLE", os.fsencode(path), 1)
            said.clear()
            context = ctypes.c_void_p()
            assert plugin.init(4, 1, logger, ctypes.byref(context)) == 0
            plugin.end(context)
            (sentence,) = said
            # Where it is a table, this machine is none of its places.
            taken = "it was measured with" in sentence or "it has no rules for" in sentence
            assert taken == is_read(path), (path.read_text(encoding="utf-8"), sentence)
            read += taken
            path.unlink()
    finally:
        libc.unsetenv(b"BUSBW_TUNER_TABLE")
    assert 300 < read < 1200


ALGORITHMS, PROTOCOLS, CANARY = 7, 3, 12345
FUNCTIONS = (0, 1, 2, 3, 4, 99, -1)
SIZES = (0, 1, 3, 6, 1 << 20, (1 << 64) - 1)
TABLES = int(os.environ.get("BUSBW_TEST_TABLES", "400"))


def test_damaged_tables_of_this_very_place_never_change_more_than_they_may(tmp_path: Path) -> None:
    """Tables that are applied where they still are tables: costs, channels and what lies behind them stay whole."""
    plugin = PluginV4.in_dll(ctypes.CDLL(str(PLUGIN)), "ncclTunerPlugin_v4")
    libc, chance = ctypes.CDLL(None), random.Random(int(os.environ.get("BUSBW_TEST_SEED", "2")))
    # The plugin takes the version of the library in which the logger lies; this function of it does nothing.
    logger = ctypes.CDLL(str(BUILD / "lib" / "libbusbw_cpu.so")).ncclGetErrorString
    facts = dict(FACTS)
    path = tmp_path / "facts"
    libc.setenv(b"BUSBW_TUNER_FACTS", os.fsencode(path), 1)
    context, applied = ctypes.c_void_p(), 0
    try:
        assert plugin.init(4, 1, ctypes.cast(logger, ctypes.c_void_p), ctypes.byref(context)) == 0
        plugin.end(context)
        libc.unsetenv(b"BUSBW_TUNER_FACTS")
        for line in path.read_text().splitlines() if path.exists() else ():
            name, _, value = line.partition(" ")
            facts |= {name: value} if name in facts else {}
        rules = (Rule("all_reduce", 1, 5, Way("tree/ll", 4), (1.01, 1.2)), Rule("broadcast", 6, 9, Way("ring/simple")))
        whole = table_text([Place(facts, rules)])
        texts = (whole[: whole.rindex(" hash=")] + "\n",)
        for number in range(TABLES):
            table = tmp_path / str(number)
            table.write_bytes(damaged(chance, texts).encode())
            libc.setenv(b"BUSBW_TUNER_TABLE", os.fsencode(table), 1)
            context = ctypes.c_void_p()
            assert plugin.init(4, 1, ctypes.cast(logger, ctypes.c_void_p), ctypes.byref(context)) == 0
            for function in FUNCTIONS:
                for size in SIZES:
                    applied += asked(plugin, context, function, size)
            plugin.end(context)
            table.unlink()
    finally:
        libc.unsetenv(b"BUSBW_TUNER_TABLE")
        libc.unsetenv(b"BUSBW_TUNER_FACTS")
    assert applied > TABLES / 4


def asked(plugin: PluginV4, context: ctypes.c_void_p, function: int, size: int) -> bool:
    """One question: whether something was answered; nothing outside the answer's place may have changed."""
    count = ALGORITHMS * PROTOCOLS
    costs = (ctypes.c_float * (count + 2))(*[1.0] * count, CANARY, CANARY)
    channels = (ctypes.c_int * 2)(0, CANARY)
    assert plugin.ask(context, function, size, 1, costs, ALGORITHMS, PROTOCOLS, 0, channels) == 0
    assert (costs[count], costs[count + 1], channels[1]) == (CANARY, CANARY, CANARY)
    assert 0 <= channels[0] <= 64 and sum(cost == 0.0 for cost in costs[:count]) <= 1
    return channels[0] > 0 or any(cost != 1.0 for cost in costs[:count])
