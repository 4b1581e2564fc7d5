"""What another process writes is copied while it writes: an entry is taken whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from made_recordings import Made, Row, write

from busbw.watch.copies import Read, entries, steady
from busbw.watch.gpu_rows import GPU_HEADER, TIME
from busbw.watch.recording import CALL, COMMUNICATOR, Recording, find

OLD, NEW = 7, 7 + 8


def played(copies: Iterable[bytes]) -> Read:
    """A file of which each copy is the next of these."""
    left = iter(copies)
    return lambda at, amount: next(left)[:amount]


def entry(stamp: int, *words: int) -> bytes:
    """A call whose words are all those of the call of that number, but where others are given."""
    first, second, third = words or (stamp, stamp, stamp)
    return CALL.pack(stamp, first, second, third, third)


def taken(*copies: bytes) -> list[Sequence[int]]:
    return list(CALL.iter_unpack(entries(played(copies), 0, len(copies[0]), CALL.size, slice(0, 4))))


def test_words_that_were_older_than_their_stamp_are_taken_from_the_second_copy() -> None:
    # As seen: the second half of an entry was copied before its first half.
    torn = entry(NEW, NEW, NEW, OLD)
    assert taken(torn, entry(NEW)) == [(NEW, NEW, NEW, NEW, NEW)]


def test_an_entry_whose_stamp_only_the_second_copy_has_is_not_there_yet() -> None:
    torn = entry(NEW, NEW, OLD, OLD)
    assert [found[0] for found in taken(entry(OLD) + entry(OLD), torn + entry(OLD))] == [0, OLD]


def test_only_the_entries_that_changed_are_left_out_of_many() -> None:
    many = [entry(number) for number in range(1, 1001)]
    other = list(many)
    for number in (0, 63, 64, 999):
        other[number] = entry(number + 5001)
    stamps = [found[0] for found in taken(b"".join(many), b"".join(other))]
    assert stamps == [0 if number in (0, 63, 64, 999) else number + 1 for number in range(1000)]


def test_of_a_file_that_was_cut_off_between_the_copies_what_both_have_is_taken() -> None:
    assert [found[0] for found in taken(entry(1) + entry(2), entry(1) + entry(2)[:31])] == [1]
    assert taken(entry(1), b"") == []


def test_what_changes_at_each_look_is_not_known() -> None:
    assert steady(played([b"a", b"b", b"b"]), 0, 1) == b"b"
    assert steady(played(bytes([turn]) for turn in range(99)), 0, 1) == b""


def writer(monkeypatch: pytest.MonkeyPatch, recording: Recording, at: int, torn: bytes) -> None:
    """The first copy that holds this place has these bytes there, as of a writer who is at it."""
    real = recording._read
    seen: list[int] = []

    def read(first: int, amount: int) -> bytes:
        whole = bytearray(real(first, amount))
        if first <= at and at + len(torn) <= first + amount and not seen:
            seen.append(first)
            whole[at - first : at - first + len(torn)] = torn
        return bytes(whole)

    monkeypatch.setattr(recording, "_read", read)


def job(folder: Path) -> Recording:
    write(folder, 0, [Row(0, 2)], [Made(n * 10**6, None, gpu_ns=1000 + n, count=n + 1) for n in range(8)])
    return Recording(find(folder)[0])


def test_a_call_is_whole_where_a_copy_was_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with job(tmp_path) as recording:
        whole = list(recording.calls())
        at = recording.header().calls_at + 3 * CALL.size
        content = find(tmp_path)[0].read_bytes()[at : at + CALL.size]
        stamp, sequence, _, when, how = CALL.unpack(content)
        for read in (lambda: list(recording.calls()), lambda: [*whole[:3], recording.call(4), *whole[4:]]):
            with monkeypatch.context() as patch:
                writer(patch, recording, at, CALL.pack(stamp, sequence, 0, when, how))
                assert read() == whole


def test_a_call_whose_stamp_only_the_second_copy_has_comes_with_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with job(tmp_path) as recording:
        whole = list(recording.calls())
        at = recording.header().calls_at + 3 * CALL.size
        with monkeypatch.context() as patch:
            writer(patch, recording, at, bytes(4))
            assert list(recording.calls()) == [*whole[:3], *whole[4:]]
        assert list(recording.calls()) == whole


def test_a_time_that_is_overwritten_meanwhile_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with job(tmp_path) as recording:
        whole = list(recording.times())
        assert len(whole) == 8
        at = recording.gpu().times_at
        number, *_ = TIME.unpack(find(tmp_path)[0].read_bytes()[at : at + TIME.size])
        writer(monkeypatch, recording, at, TIME.pack(number, 1, 1, 1, 0))
        assert list(recording.times()) == whole[1:]


def test_a_row_that_is_made_meanwhile_comes_with_the_next_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with job(tmp_path) as recording:
        header = recording.header()
        with monkeypatch.context() as patch:
            writer(patch, recording, header.communicators_at, bytes(COMMUNICATOR.size))
            assert recording.communicators() == []
        assert [row.rank for row in recording.communicators()] == [0]


def test_the_places_of_the_layout_hold() -> None:
    # A call's stamp, and `made` of a row, as schema/recording.md has them.
    assert (CALL.unpack(b"\x01" + bytes(31))[0], COMMUNICATOR.unpack(bytes(28) + b"\x01" + bytes(99))[5]) == (1, 1)
    assert GPU_HEADER.size == 48
