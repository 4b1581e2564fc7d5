"""PyTorch's flight recorder: who lags, what differs, and dumps in every shape."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.doctor.reading.flight import looks_like, read_flights, standstills
from busbw.doctor.reading.snapshot import TextFile

from .cases import flight


def said(*files: TextFile) -> list[str]:
    return [each.title for each in standstills([f for file in files for f in read_flights(file.text or "", file.path)])]


def test_the_rank_that_made_fewer_calls_lags() -> None:
    [title] = said(*(flight(rank, 7 - 2 * (rank == 3)) for rank in range(4)))
    assert title.startswith("rank 3 lags in process group 0") and "others have 7" in title


@pytest.mark.parametrize(("group", "words"), [(["0", "default_pg"], "0 (default_pg)"), (["7", ""], "7"), ("8", "8")])
def test_a_group_is_told_by_its_name_and_purpose(group: object, words: str) -> None:
    files = []
    for rank in range(3):
        dump = json.loads(flight(rank, 7 - (rank == 1)).text or "")
        dump["entries"] = [{**each, "process_group": group} for each in dump["entries"]]
        files.append(TextFile(f"nccl_trace_rank_{rank}", json.dumps(dump)))
    assert said(*files)[0].startswith(f"rank 1 lags in process group {words}:")


@pytest.mark.parametrize(("name", "size"), [("nccl:broadcast", 1024), ("nccl:all_reduce", 8)])
def test_a_collective_that_differs_is_named_with_its_rank(name: str, size: int) -> None:
    [title] = said(flight(0, 5), flight(1, 5, name, size), flight(2, 5))
    assert title.startswith("collective 5 of process group 0 differs between ranks: rank 1")


def test_ranks_that_all_wait_in_the_same_one_are_no_mismatch() -> None:
    [title] = said(flight(0, 5), flight(1, 5))
    assert title.startswith("all ranks of process group 0 are in collective 5 (nccl:all_reduce)")


def test_all_ranks_in_one_file_and_ranks_by_name_are_read() -> None:
    dumps = {str(rank): json.loads(flight(rank, 5 - rank).text or "") for rank in range(2)}
    assert [each.rank for each in read_flights(json.dumps(dumps), "all.json")] == [0, 1]
    listed = [{"rank": rank, **dump} for rank, dump in enumerate(dumps.values())]
    assert [each.rank for each in read_flights(json.dumps(listed), "all.json")] == [0, 1]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"entries": 7}', '{"entries": [1, {"seq_id": "x"}, null]}', "[" * 9999]
)
def test_what_is_no_dump_gives_nothing_to_say(text: str) -> None:
    assert said(TextFile("x.json", text), flight(0, 3)) == []
    assert not looks_like(text)


def test_dumps_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = []
    for rank in range(3):
        path = tmp_path / f"nccl_trace_rank_{rank}.json"
        path.write_text(flight(rank, 9 - (rank == 1)).text or "")
        names.append(str(path))
    assert main(["doctor", *names]) == 1
    assert "rank 1 lags" in " ".join(capsys.readouterr().out.split())
    assert main(["doctor", names[0]]) == 3


def gloo(rank: int, *, last_is_over: bool, named: bool = True) -> dict[str, object]:
    """As PyTorch 2.13 writes it: over Gloo a collective stays scheduled, and goes off the list when it has ended."""
    entries = [
        {"collective_seq_id": number, "profiling_name": "gloo:all_reduce", "state": "scheduled", "is_p2p": False,
         "input_sizes": [[16]], "process_group": ["0", "default_pg"], "retired": number < 4 or last_is_over,
         "time_discovered_started_ns": 0, "time_discovered_completed_ns": 0}
        for number in range(1, 5)
    ]  # fmt: skip
    return {"entries": entries, **({"rank": rank} if named else {})}


def test_over_gloo_what_was_taken_off_the_list_has_ended() -> None:
    def of(over: tuple[bool, bool]) -> list[str]:
        dumps = [gloo(rank, last_is_over=each) for rank, each in enumerate(over)]
        return [each.title for each in standstills(read_flights(json.dumps(dumps), "dump.json"))]

    assert of((True, True)) == []
    [title] = of((False, False))
    assert title.startswith("all ranks of process group 0 (default_pg) are in collective 4 (gloo:all_reduce)")
    [title] = of((True, False))
    assert title.startswith("rank 1 lags")


def test_dumps_in_a_list_without_names_stand_in_the_order_of_their_ranks() -> None:
    dumps = json.dumps([gloo(rank, last_is_over=True, named=False) for rank in range(3)])
    assert [each.rank for each in read_flights(dumps, "dump.json")] == [0, 1, 2]
    assert [each.rank for each in read_flights(json.dumps([gloo(7, last_is_over=True)]), "dump.json")] == [7]
