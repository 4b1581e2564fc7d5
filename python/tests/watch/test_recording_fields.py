"""Every field of a recording is read whole and by itself: each bit of a call, each state of a communicator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_recordings import Made, Row, write

from busbw.watch.recording import COMMUNICATOR, KINDS, OPS, TYPES, Call, Recording, find

PLAIN = Made(64)
WIDEST: dict[str, int] = {"count": (1 << 48) - 1, "stream": (1 << 16) - 1, "group": (1 << 12) - 1, "begun_ns": 64 << 40}


def read(folder: Path, *calls: Made) -> list[Call]:
    write(folder, 0, [Row(0, 2)], calls)
    with Recording(find(folder)[0]) as recording:
        return list(recording.calls())


def field(call: Call, name: str) -> object:
    return call.shape.count if name == "count" else getattr(call, name)


@pytest.mark.parametrize("name", WIDEST)
def test_a_field_of_a_call_is_read_to_its_last_bit_and_touches_no_other(tmp_path: Path, name: str) -> None:
    alone, wide = read(tmp_path, PLAIN, replace(PLAIN, **{name: WIDEST[name]}))  # type: ignore[arg-type]
    assert field(wide, name) == WIDEST[name]
    for other in {*WIDEST, "host_ns", "captured", "configured", "failed", "launched", "in_place"} - {name}:
        assert field(wide, other) == field(alone, other), other
    assert replace(wide.shape, count=alone.shape.count) == alone.shape


def test_kinds_types_operators_and_flags_are_read_by_themselves(tmp_path: Path) -> None:
    named = [kind for kind in KINDS if not kind.startswith("none")]
    kinds = read(tmp_path, *(replace(PLAIN, kind=kind) for kind in named))
    assert [call.shape.kind for call in kinds] == named
    types = read(tmp_path, *(replace(PLAIN, type=type_) for type_ in TYPES))
    assert [call.shape.type for call in types] == list(TYPES)
    ops = read(tmp_path, *(replace(PLAIN, op=op) for op in OPS))
    assert [call.shape.op for call in ops] == list(OPS)
    flags = read(tmp_path, *(replace(PLAIN, flags=flags, launched=flags == 0) for flags in (0, 1, 2, 4)))
    assert [(call.launched, call.captured, call.configured, call.failed) for call in flags] == [
        (True, False, False, False), (False, True, False, False), (False, False, True, False),
        (False, False, False, True),
    ]  # fmt: skip


def test_roots_and_peers_are_read_to_the_last_rank(tmp_path: Path) -> None:
    roots = read(tmp_path, *(replace(PLAIN, kind="send", root=root) for root in (0, 1, (1 << 20) - 3)))
    assert [call.shape.root for call in roots] == [0, 1, (1 << 20) - 3]


@pytest.mark.parametrize(("at", "states"), [(0, (False, False)), (1, (True, False)), (2, (False, True))])
def test_a_communicator_says_at_which_end_its_library_is(tmp_path: Path, at: int, states: tuple[bool, bool]) -> None:
    path = write(tmp_path, 0, [Row(0, 2)], [PLAIN])
    content = bytearray(path.read_bytes())
    values = list(COMMUNICATOR.unpack_from(content, 4096))
    values[11] = at
    COMMUNICATOR.pack_into(content, 4096, *values)
    path.write_bytes(content)
    with Recording(path) as recording:
        (row,) = recording.communicators()
        assert (row.in_group_end, row.in_end) == states


def test_a_file_that_is_cut_off_while_it_is_read_has_the_header_that_it_had(tmp_path: Path) -> None:
    path = write(tmp_path, 0, [Row(0, 2)], [PLAIN, PLAIN])
    with Recording(path) as recording:
        before = recording.header()
        path.write_bytes(b"")
        assert recording.header() == before
        assert (recording.communicators(), list(recording.calls()), list(recording.times())) == ([], [], [])
        assert (recording.call(1), recording.making(), recording.refused(), recording.pulses()) == (
            None,
            None,
            None,
            {},
        )
