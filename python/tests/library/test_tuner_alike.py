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
    "busbw-tuner 1\n", "1e5", "\x0b", "\x85", "\u2028", "\x1c",
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


def damaged(chance: random.Random) -> str:
    text = chance.choice((WHOLE, WITHOUT_HASH, WITHOUT_HASH))
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
