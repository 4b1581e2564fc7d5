"""Lines of which no signature speaks: which are kept, how many, and the boxes in which launchers explain an end."""

from __future__ import annotations

import pytest

from busbw.doctor.lines.trouble import MAX_STRANGE, RULE, Trouble

BOX = "mpirun was unable to launch the specified application on 3 nodes"


def boxed(*lines: str, known: bool = False) -> Trouble:
    trouble = Trouble()
    for number, line in enumerate((RULE, *lines, RULE), 1):
        trouble.ruled(line, number, known=known)
    return trouble


def test_a_box_is_one_sentence_in_the_place_of_its_lines() -> None:
    trouble = Trouble()
    trouble.add("RuntimeError: flux", 1)
    for number, line in enumerate((RULE, "mpirun was unable to launch", "an error on 3 nodes", RULE), 2):
        if number == 4:
            trouble.add(line, number)
        trouble.ruled(line, number, known=False)
    assert trouble.strange == [
        (1, "RuntimeError: flux"),
        (3, "MPI says: mpirun was unable to launch an error on 3 nodes"),
    ]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ((BOX,), True),
        (("mpirun was unable to", "x"), False),  # too short to say anything
        ((BOX, *["x"] * 29), True),
        ((BOX, *["x"] * 30), False),  # no box: a report between rules
        (("WARNING: " + BOX,), False),
        (("the flux of the tokamak was not as long as it should be",), False),
        (("mpirun launched the application, on all of the nodes given",), False),
    ],
)
def test_what_counts_as_a_box(lines: tuple[str, ...], told: bool) -> None:
    assert bool(boxed(*lines).strange) == told
    assert not boxed(*lines, known=True).strange


def test_only_so_many_are_kept() -> None:
    trouble = Trouble()
    for number in range(1, 200):
        trouble.add(f"RuntimeError: flux {number}", number)
        trouble.add(f"libfabric:1:efa:cq:x():{number}<warn> flux", number)
    assert len(trouble.strange) == MAX_STRANGE
    odd = Trouble()
    for number in range(1, 200):
        odd.add(f"libfabric:1:efa:cq:x():{number}<warn> flux", number)
    assert len(odd.odd) == MAX_STRANGE


@pytest.mark.parametrize("line", ["[ERROR] {}", "{} level=fatal"])
def test_a_level_is_looked_for_at_both_ends_of_a_long_line(line: str) -> None:
    trouble = Trouble()
    trouble.add(line.format("the flux of ports " * 40), 1)
    assert trouble.strange


@pytest.mark.parametrize(("line", "told"), [("<crit> {}", True), ("{} <crit> x", True), ("{0} <crit> {0}", False)])
def test_a_level_in_the_middle_of_a_long_line_is_what_it_quotes(line: str, told: bool) -> None:
    trouble = Trouble()
    trouble.add(line.format("the flux of ports " * 40), 1)
    assert bool(trouble.strange) == told
