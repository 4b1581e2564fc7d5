"""What pasting does to a log is undone: broken lines, escapes, lines within a string, two bytes for a character."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Severity
from busbw.doctor.reading.inputs import Inputs, read_inputs
from busbw.doctor.reading.pasted import restored

from .corpus import healthy
from .corpus.load import cases, number_of
from .test_corpus import loud

FEW = [
    each
    for each in cases()
    if number_of(each.name) % 40 == 0
    and "table" not in each.name
    and "runs-differ" not in each.expected
    and "two-launchers" not in each.name
]
"""Rows of tables have no width of a terminal left: those that only they tell are left out. So are logs of two hosts,
one behind the other: a service that puts a time before each line says that all of the one was earlier."""


def broken(text: str, width: int) -> str:
    """As a terminal of that many columns shows it."""
    lines = [line[at : at + width] for line in text.split("\n") for at in range(0, max(1, len(line)), width)]
    return "\n".join(lines)


LISTING = 12


def in_front(front: Callable[[int], str]) -> Callable[[str], bytes]:
    """Puts the same, or what grows with its number, before each line."""
    return lambda text: "\n".join(front(at) + line for at, line in enumerate(text.split("\n"), 1)).encode()


def as_objects(text: str, **more: str) -> bytes:
    """As services keep lines, each an object of its own."""
    return "\n".join(
        json.dumps({"log": f"{line}\n", "time": stamp(at), **more}) for at, line in numbered(text)
    ).encode()


def numbered(text: str) -> list[tuple[int, str]]:
    return list(enumerate(text.split("\n"), 1))


def stamp(at: int) -> str:
    return f"2026-03-04T{at // 3600 % 24:02}:{at // 60 % 60:02}:{at % 60:02}.{at * 7919 % 10**9:09}Z"


FRONTS: dict[str, Callable[[str], bytes]] = {
    "a quote": in_front(lambda _: "> "),
    "a block": in_front(lambda _: "    "),
    "numbers": in_front(lambda at: f"{at:6}\t"),
    "kubectl": in_front(lambda _: "[pod/train-worker-0/pytorch] "),
    "stern": in_front(lambda _: "train-worker-0 pytorch "),
    "compose": in_front(lambda _: "worker-1  | "),
    "a runtime": in_front(lambda at: f"{stamp(at)} stdout F "),
    "journald": in_front(
        lambda at: f"Mar 04 {at // 3600 % 24:02}:{at // 60 % 60:02}:{at % 60:02} gpu-07 python3[31337]: "
    ),
    "an algorithm": in_front(lambda at: f"{stamp(at)[:23].replace('T', ' ')} | algo-1 | "),
    "srun": in_front(lambda _: "0: "),
    "mpirun": in_front(lambda _: "[1,0]<stdout>:"),
    "SageMaker": in_front(lambda _: "[1,mpirank:0,algo-1]<stdout>:"),
    "Ray": in_front(lambda _: "\x1b[36m(RayWorkerWrapper pid=4242, ip=10.0.3.7)\x1b[0m "),
    "colours": lambda text: "\n".join(f"\x1b[31m{line}\x1b[0m" for line in text.split("\n")).encode(),
    "objects": as_objects,
    "free lines": lambda text: text.replace("\n", "\n\n").encode(),
    "spaces that do not break": lambda text: text.replace("  ", "\u00a0 ").encode(),
    "an editor's marks": lambda text: (
        text.replace("'", "\u2019").replace(' "', " \u201c").replace('"', "\u201d").replace(" - ", " \u2013 ").encode()
    ),
}
FORMS: dict[str, Callable[[str], bytes]] = FRONTS | {
    "80 columns": lambda text: broken(text, 80).encode(),
    "120 columns": lambda text: broken(text, 120).encode(),
    "HTML": lambda text: html.escape(text).encode(),
    "a list": lambda text: json.dumps(text.split("\n")).encode(),
    "a string": lambda text: repr(text).encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_cause_is_named_in_every_form(form: str, tmp_path: Path) -> None:
    missed = [each.name for each in FEW if first(FORMS[form](each.text), tmp_path) not in each.expected]
    assert len(FEW) > 20 and missed == []


@pytest.mark.parametrize("form", FRONTS)
def test_healthy_logs_stay_healthy_in_every_form(form: str, tmp_path: Path) -> None:
    few = [(name, text) for name, text in healthy.logs() if number_of(name) % 9 == 4]
    if form == "a block":  # fewer lines with an indent may be a part of a listing
        few = [(name, text) for name, text in few if text.count("\n") > LISTING]
    assert len(few) > 8
    assert [name for name, text in few if first(FRONTS[form](text), tmp_path)] == []


@pytest.mark.parametrize("form", ["a list", "a string"])
def test_the_lines_of_a_string_have_an_order(form: str, tmp_path: Path) -> None:
    """What MPI says in a box stands in several lines, of which the one before the other begins it."""
    case = next(each for each in cases() if each.name == "s74-c-prrte-bind-overload")
    assert first(FORMS[form](case.text), tmp_path) in case.expected


def first(data: bytes, folder: Path) -> str:
    """The first finding above a note."""
    path = folder / "job.log"
    path.write_bytes(data)
    found = examine(gather(*read_inputs(Inputs(files=(str(path),)))))
    return next((each.name for each in found if each.severity is not Severity.NOTE), "")


def test_healthy_logs_stay_healthy_in_broken_lines(tmp_path: Path) -> None:
    few = [text for name, text in healthy.logs() if number_of(name) % 12 == 0]
    assert len(few) > 8
    for text in few:
        assert loud(broken(text, 120), tmp_path) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "one line\n",
        # Rulers and rows of a table are as long as each other, and no rest of a line.
        "-" * 80 + "\nstep 1\n" + "=" * 80 + "\nstep 2\n",
        "\n".join(f"  {size:11} 1024 float sum -1 100.0 1.0 1.0 0 {'':30}" for size in range(10**6, 10**6 + 6)),
        "2026-01-01 " + "a" * 89 + "\n2026-01-01 b\n",
        # Steps of equal width, and what ended them.
        "".join(f"step {i:3} | loss 2.{i:03} | grad norm 1.1 | lr 3.0e-04 | 412.1 TFLOP/s\n" for i in range(9))
        + "bye\n",
    ],
)
def test_what_a_program_wrote_is_left_alone(text: str) -> None:
    assert restored(text) is None


def test_lines_keep_the_number_of_their_beginning() -> None:
    words = "NCCL WARN Call to connect failed, and then it was tried again " * 4
    text = f"{words[:130]}\nnext\n{words[:250]}\nlast\n"
    expected = [(1, words[:130]), (3, "next"), (4, words[:250]), (7, "last"), (8, "")]
    assert restored(broken(text, 100)) == expected
