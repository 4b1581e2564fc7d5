"""Execution traces of PyTorch and PARAM become recordings, which are read and replayed as any other."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from busbw.base.errors import UserError
from busbw.cli.main import main
from busbw.importers import execution_trace
from busbw.importers.execution_trace import MAX_RANKS, convert, rank_of
from busbw.watch.recording import Recording, find
from busbw.watch.replay import Plan, plan

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD", ROOT / "build"))
needs_library = pytest.mark.skipif(
    not (BUILD / "lib" / "libbusbw_cpu.so").exists(), reason="the CPU library is not built; BUSBW_BUILD names a build"
)
GROUPS = [
    {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "ranks": [], "group_size": 3},
    {"pg_name": "1", "pg_desc": "tp", "backend_config": "cuda:nccl", "ranks": [0, 2], "group_size": 2},
]


def init(number: int = 3) -> dict[str, Any]:
    values = {"values": [json.dumps(GROUPS)], "shapes": [[]], "types": ["String"]}
    return {"id": number, "name": "## process_group:init ##", "ctrl_deps": 2, "inputs": values, "attrs": []}


def call(number: int, name: str, sent: int, received: int, *, pg: str = "0", peer: int = 0, type_: str = "Float",
         split: str = "[]") -> dict[str, Any]:  # fmt: skip
    """As PyTorch 2.5 and later write it."""
    tensor = [[7, 8, 0, sent, 4, "cuda:0"]]
    values = [tensor, [number, False], [pg, "x"], peer, name, [], [], 0, 1, 3]
    attrs = {
        "rf_id": number,
        "collective_name": name,
        "dtype": type_,
        "in_msg_nelems": sent,
        "out_msg_nelems": received,
        "in_split_size": split,
        "out_split_size": split,
        "pg_name": pg,
        "pg_size": 3,
    }
    return {
        "id": number, "name": "record_param_comms", "ctrl_deps": 4,
        "inputs": {"values": values, "shapes": [], "types": ["GenericList[Tensor(float)]", "Tuple[Int,Bool]"]},
        "outputs": {"values": [tensor]}, "attrs": [{"name": key, "value": value} for key, value in attrs.items()],
    }  # fmt: skip


def write(folder: Path, rank: int, nodes: list[dict[str, Any]]) -> Path:
    path = folder / f"rank-{rank}.json"
    path.write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "pid": 5, "start_ts": 1, "nodes": nodes}))
    return path


def traces(folder: Path) -> list[Path]:
    """Three ranks with each kind, a subgroup, a ring of messages, and what cannot be replayed."""
    made = []
    for rank in range(3):
        nodes = [
            init(), call(10, "allreduce", 1000, 1000), call(11, "_allgather_base", 8, 24, type_="BFloat16"),
            call(12, "_reduce_scatter_base", 24, 8), call(13, "broadcast", 64, 64, peer=2, type_="Long"),
            call(14, "wait", 0, 0), call(15, "all_to_all", 12, 12, type_="Int"),
            call(16, "all_to_all", 12, 12, split="[2, 4, 6]"),
            call(20, "send", 5, 5, peer=(rank + 1) % 3), call(21, "recv", 5, 5, peer=(rank - 1) % 3),
            call(22, "barrier", 1, 1), call(30, "reduce", 16, 16, peer=1, type_="Double"),
        ]  # fmt: skip
        if rank != 1:
            nodes.append(call(17, "allreduce", 30, 30, pg="1", type_="Half"))
        # Out of order: PyTorch writes a node when its function is left.
        made.append(write(folder, rank, nodes[::-1]))
    return made


def planned(folder: Path) -> Plan:
    recordings = [Recording(path) for path in find(folder)]
    try:
        return plan(recordings, None)
    finally:
        for each in recordings:
            each.close()


def test_a_trace_of_pytorch_becomes_a_recording_that_can_be_replayed(tmp_path: Path) -> None:
    (tmp_path / "rec").mkdir()
    written, notes = convert(traces(tmp_path), tmp_path / "rec")
    assert notes == ["3 collectives of uneven parts are left out"]
    assert len(written) == 3
    made = planned(tmp_path / "rec")
    assert not made.left_out
    # begun, communicator, kind, count, type, operator, root, group, lane
    assert [(step[2], step[3], step[4], step[6], step[7]) for step in made.ranks[0].steps] == [
        ("all_reduce", 1000, 7, 0, 0), ("all_gather", 8, 9, 0, 0), ("reduce_scatter", 8, 7, 0, 0),
        ("broadcast", 64, 4, 2, 0), ("alltoall", 4, 2, 0, 0), ("all_reduce", 30, 6, 0, 0), ("send", 5, 7, 1, 1),
        ("recv", 5, 7, 2, 1), ("reduce", 16, 8, 1, 0),
    ]  # fmt: skip
    assert [rank.communicators for rank in made.ranks] == [[(3, 0), (2, 0)], [(3, 1), (0, 0)], [(3, 2), (2, 1)]]


def test_an_older_trace_says_it_by_its_inputs(tmp_path: Path) -> None:
    for rank in range(2):
        groups = json.dumps([{"pg_name": "0", "ranks": {"0": 0, "1": 1}, "group_size": 2}])
        node = {
            "id": 4, "name": "record_param_comms",
            "inputs": [[[[9, 8, 0, 30, 2, "cuda:0"], [9, 8, 0, 34, 2, "cuda:0"]]], 7, ["0", "x"], 1, "broadcast", []],
            "input_types": ["GenericList[Tensor(c10::BFloat16)]", "Int"], "outputs": [],
        }  # fmt: skip
        (tmp_path / f"et_{rank}.json").write_text(json.dumps({"schema": "1.0.3", "nodes": [
            {"id": 1, "name": "## process_group:init ##", "inputs": [groups]}, node]}))  # fmt: skip
    (tmp_path / "rec").mkdir()
    convert(sorted(tmp_path.glob("*.json")), tmp_path / "rec")
    steps = planned(tmp_path / "rec").ranks[1].steps
    assert [(step[2], step[3], step[4], step[6]) for step in steps] == [("broadcast", 64, 9, 1)]


def test_a_group_that_calls_name_by_a_number_of_the_process_is_the_one_of_that_name(tmp_path: Path) -> None:
    """As PyTorch 2.3 wrote it: the number differs from rank to rank."""
    for rank in range(2):
        groups = [{"pg_name": "0", "backend_id": 700 + rank, "ranks": [], "group_size": 2}]
        values = [[[14, 15, 0, 5, 4, "cuda:0"]], 12, 700 + rank, rank, "all_gather", [], [], 2]
        nodes = [
            {"id": 1, "name": "## process_group:init ##", "inputs": {"values": [json.dumps(groups)]}},
            {"id": 3, "name": "record_param_comms", "inputs": {"values": values, "types": [
                "GenericList[Tensor(float)]"]}, "outputs": {"values": []}},
        ]  # fmt: skip
        write(tmp_path, rank, nodes)
    (tmp_path / "rec").mkdir()
    convert(sorted(tmp_path.glob("*.json")), tmp_path / "rec")
    assert [[step[2:4] for step in rank.steps] for rank in planned(tmp_path / "rec").ranks] == [[("all_gather", 5)]] * 2


@pytest.mark.parametrize(
    ("name", "rank"),
    [("rank-3.json", 3), ("et_7.json.gz", 7), ("5.json", 5), ("chakra.4.json", 4), ("1.0.2-chakra.0.0.4.json", 0)],
)
def test_a_rank_is_read_from_the_name_and_a_version_is_none(name: str, rank: int) -> None:
    assert rank_of(Path("traces-2") / name, 0, 1) == rank


def test_a_rank_beyond_the_most_is_refused() -> None:
    assert rank_of(Path(f"rank-{MAX_RANKS - 1}.json"), 0, 1) == MAX_RANKS - 1
    with pytest.raises(UserError, match=f"rank {MAX_RANKS} is more than busbw takes"):
        rank_of(Path(f"rank-{MAX_RANKS}.json"), 0, 1)


def test_a_packed_trace_is_unpacked_to_the_last_byte_that_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps({"nodes": [init(), call(10, "allreduce", 8, 8)]}).encode()
    packed = tmp_path / "rank-0.json.gz"
    packed.write_bytes(gzip.compress(text))
    monkeypatch.setattr(execution_trace, "MAX_BYTES", len(text))
    assert len(execution_trace.read(packed, 0).calls) == 1
    packed.write_bytes(gzip.compress(text + b" "))
    with pytest.raises(UserError, match="unpacks to more than"):
        execution_trace.read(packed, 0)


def test_without_times_calls_keep_their_order_and_what_a_receiver_gets_is_its_count(tmp_path: Path) -> None:
    """A root that is none of the group's ranks is left out, and parts of one size are an all-to-all."""
    for rank in range(3):
        nodes = [
            init(), call(10, "allreduce", 8, 8), call(11, "allreduce", 9, 9), call(12, "broadcast", 4, 4, peer=3),
            call(13, "all_to_allv", 12, 12, split="[4, 4, 4]"),
            *([call(14, "recv", 7, 5, peer=1)] if rank == 0 else []),
            *([call(14, "send", 5, 7, peer=0)] if rank == 1 else []),
        ]  # fmt: skip
        write(tmp_path, rank, nodes)
    (tmp_path / "rec").mkdir()
    _, notes = convert(sorted(tmp_path.glob("*.json")), tmp_path / "rec")
    assert notes == ["3 calls on too many process groups, or with a root that is none of their ranks are left out"]
    steps = planned(tmp_path / "rec").ranks[0].steps
    assert [(step[2], step[3]) for step in steps] == [
        ("all_reduce", 8), ("all_reduce", 9), ("alltoall", 4), ("recv", 5),
    ]  # fmt: skip
    begun = [step[0] for step in steps]
    assert begun == sorted(set(begun)) and begun[1] - begun[0] == 960, "a microsecond, in whole ticks"


def test_a_trace_of_param_has_times_and_ranks_of_the_job(tmp_path: Path) -> None:
    """Two ranks of a job of eight: 4 sends to 6."""
    for rank in (4, 6):
        message = {"comms": "send" if rank == 4 else "recv", "pg_id": 3, "in_msg_size": 9, "out_msg_size": 9,
                   "dtype": "Half", "src_rank": 4, "dst_rank": 6, "startTime_ns": 9_000_000}  # fmt: skip
        reduced = {"comms": "all_reduce", "pg_id": 3, "in_msg_size": 8, "out_msg_size": 8, "dtype": "float",
                   "startTime_ns": 5_000_000, "world_size": 2}  # fmt: skip
        entries = [{"comms": "init", "pg_id": 3, "global_ranks": [4, 6]}, reduced, {"compute": "gemm"}, message]
        with gzip.open(tmp_path / f"rank{rank}.json.gz", "wt") as file:
            json.dump(entries, file)
    (tmp_path / "rec").mkdir()
    _, notes = convert(sorted(tmp_path.glob("*.gz")), tmp_path / "rec")
    assert notes == ["2 kernels of compute are left out"]
    first, second = planned(tmp_path / "rec").ranks
    assert [(step[0], step[2], step[3], step[6]) for step in first.steps] == [
        (0, "all_reduce", 8, 0), (4_000_000, "send", 9, 1),
    ]  # fmt: skip
    assert [(step[2], step[6]) for step in second.steps] == [("all_reduce", 0), ("recv", 0)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "no execution trace"), ("[1", "cut off, or no JSON"),
        ('{"nodes": [{"id": -1, "name": "x"}]}', "a part is missing"),
        (json.dumps({"nodes": [init()]}), "no collective with its process group"),
        (json.dumps({"nodes": [call(1, "allreduce", 4, 4)]}), "no collective with its process group"),
        (json.dumps({"nodes": [init(), call(4, "allreduce", -4, 4)]}), "a part is missing"),
        ('{"nodes": [{"id": true, "name": "x"}]}', "a part is missing"),
    ],
)  # fmt: skip
def test_what_is_no_trace_is_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "rank-0.json").write_text(text)
    with pytest.raises(UserError, match=said):
        convert([tmp_path / "rank-0.json"], tmp_path)


def test_a_rank_is_known_by_its_file_and_comes_once(tmp_path: Path) -> None:
    one, other = write(tmp_path, 0, [init(), call(4, "allreduce", 4, 4)]), tmp_path / "again-rank-0.json"
    other.write_text(one.read_text())
    with pytest.raises(UserError, match="rank 0 was read before"):
        convert([one, other], tmp_path)
    nameless = one.rename(tmp_path / "some.json")
    with pytest.raises(UserError, match="does not say whose trace it is"):
        convert([nameless, other], tmp_path)


@needs_library
def test_the_verbs_make_and_replay_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces(tmp_path)
    assert main(["import", str(tmp_path), "--recordings", str(tmp_path / "rec")]) == 0
    assert "recordings of 3 ranks" in capsys.readouterr().out
    assert main(["replay", str(tmp_path / "rec")]) == 0
    assert "26 calls of 3 ranks" in capsys.readouterr().out
    assert main(["import", str(tmp_path), "--recordings", str(tmp_path / "rec")]) == 1, "nothing is written over"
