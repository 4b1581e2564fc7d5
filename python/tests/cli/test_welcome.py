"""`busbw` without words says what is here, and names commands that work."""

from __future__ import annotations

import shlex

import pytest

from busbw.base.words import parse
from busbw.cli.arguments.measuring import understand
from busbw.cli.main import main
from busbw.cli.verbs import COLLECTIVES, VERBS
from busbw.cli.welcome import Found, commands, text

GPUS = ("NVIDIA H200",) * 4
NCCL = (("2.28.9", "/usr/lib/libnccl.so.2"),)
MACHINES = [
    Found(GPUS, NCCL, ("mpirun",), 96),
    Found(GPUS[:1], NCCL, (), 8),
    Found(GPUS, (), (), 8),
    Found((), (), (), 2),
]


@pytest.mark.parametrize("found", MACHINES)
def test_three_commands_that_the_verbs_understand(found: Found) -> None:
    named = commands(found)
    assert len(named) == 3
    for command, said in named:
        program, verb, *words = shlex.split(command)
        assert program == "busbw" and verb in {each.name for each in VERBS} and said
        if verb in COLLECTIVES:
            understand(verb, words)
        else:
            parse(verb, words)


def test_what_was_found_is_said() -> None:
    said = text(MACHINES[0])
    assert "4 x NVIDIA H200" in said and "2.28.9  /usr/lib/libnccl.so.2" in said and "local mpirun" in said
    assert "-t 4" in said
    assert "none; busbw measures processors here" in text(MACHINES[3])


def test_busbw_without_words_looks_at_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "Three commands that make sense here:" in capsys.readouterr().out
