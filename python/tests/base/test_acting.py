"""What acts on a collective is kept: variables of every library, and files that they name or find."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from busbw.base.acting import acts, belongs_in_record, listed, set_by_others, settings_of
from busbw.doctor.host.acting_files import acting_files
from busbw.torch_bench.output import environment


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_IB_PKEY",
        "OFI_NCCL_PROTOCOL",
        "TORCH_NCCL_BLOCKING_WAIT",
        "PYTORCH_CUDA_ALLOC_CONF",
        "FI_EFA_USE_DEVICE_RDMA",
        "RDMAV_FORK_SAFE",
        "HCOLL_ENABLE_MCAST_ALL",
        "NVIDIA_IMEX_CHANNELS",
        "GLIBC_TUNABLES",
        "I_MPI_FABRICS",
        "PMIX_MCA_gds",
        "OMPI_MCA_btl",
        "KMP_AFFINITY",
        "MSCCLPP_DISABLE_CHANNEL_CACHE",
        "HSA_NO_SCRATCH_RECLAIM",
        "LD_PRELOAD",
    ],
)
def test_a_variable_that_acts_is_kept_by_all_that_keep_any(name: str) -> None:
    assert acts(name) and environment({name: "1"}) == {name: "1"}


@pytest.mark.parametrize(
    "name", ["HOME", "PATH", "USER", "HF_TOKEN", "NCCL_API_KEY", "FI_AUTH_TOKEN", "XNCCL_ALGO", "RANKS", ""]
)
def test_a_variable_that_does_not_act_or_is_secret_is_not(name: str) -> None:
    assert not acts(name) and environment({name: "1"}) == {}


def test_the_place_of_a_rank_stands_in_its_record_alone() -> None:
    assert belongs_in_record("RANK") and not acts("RANK")
    assert all(listed(kind) for kind in ("prefix", "name", "place", "file", "conf"))


def test_settings_of_other_libraries_are_read_as_they_read_them(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".openmpi").mkdir(parents=True)
    text = "# all\r\nbtl = tcp,self\r\nbtl_tcp_if_include=lo\nbtl_tcp_if_include=eth0\n"
    (home / ".openmpi/mca-params.conf").write_text(text)
    (home / "ucx.conf").write_text("[default]\nUCX_TLS=tcp\n#UCX_NET_DEVICES=x\n UCX_TLS = rc\n")
    assert acting_files({"HOME": "/home"}, tmp_path) == {
        "mca-params.conf btl": "tcp,self",
        "mca-params.conf btl_tcp_if_include": "eth0",
        "ucx.conf UCX_TLS": "rc",
    }
    found = set_by_others({"HOME": "/home"}, tmp_path)
    assert found["UCX_TLS"] == ("/home/ucx.conf", 4) and found["OMPI_MCA_btl"][1] == 2
    assert "UCX_NET_DEVICES" not in found


def test_two_files_of_one_name_are_told_apart_and_secrets_are_not_shown(tmp_path: Path) -> None:
    told = []
    for text in ("<graphs/>", "<graphs version='1'/>"):
        (tmp_path / "graph.xml").write_text(text)
        told.append(acting_files({"NCCL_GRAPH_FILE": "/graph.xml"}, tmp_path))
    assert told[0].keys() == told[1].keys() == {"file of NCCL_GRAPH_FILE"} and told[0] != told[1]
    graph = {"NCCL_GRAPH_FILE": "/graph.xml"}
    assert acting_files({}, tmp_path, graph) == told[1]
    assert acting_files({"NCCL_GRAPH_FILE": ""}, tmp_path, graph) == {}  # which hides what an nccl.conf says
    (tmp_path / "lib").mkdir()
    assert acting_files({"NCCL_GRAPH_FILE": "graph.xml", "LD_PRELOAD": "/lib"}, tmp_path) == {}
    (tmp_path / "lib/ucx.conf").write_text("UCX_TLS=rc\nAPI_KEY=otter\n")
    assert "otter" not in str(acting_files({"HOME": "/lib"}, tmp_path))


def test_damaged_files_are_settings_or_nothing(tmp_path: Path) -> None:
    draw = random.Random(7)
    seed = b"btl = tcp,self\nUCX_TLS=rc\r\n[x]\n= 5\nA" + b"=" * 50 + b"\n"
    for _ in range(200):
        data = bytearray(seed * draw.randrange(1, 4))
        for _ in range(draw.randrange(20)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        (tmp_path / "ucx.conf").write_bytes(data)
        found = acting_files({"HOME": "/"}, tmp_path)
        assert all(len(value) <= 200 and "\n" not in value for value in found.values())
    assert list(settings_of("x" * 100_000 + "=1")) == []
