"""Masks are made of a node's own processors, and what cannot be right is refused before anything starts."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from jobs import JOB

from busbw.base.errors import UsageError, UserError
from busbw.cli.arguments.measuring import understand
from busbw.cli.main import main
from busbw.launch import sbatch
from busbw.launch.affinity import Near, cpu_sets
from busbw.launch.hosts import check_names
from busbw.launch.job import JobSpec
from busbw.launch.processors import check_sets, processors_of_node
from busbw.launch.request import Program, build_job

NCV4 = [Near(frozenset({0}), frozenset(range(4)))] * 4
"""What nvidia-smi says on Azure's NC96v4: one processor, four nodes of memory."""
WHOLE = [Near(frozenset(range(24)), frozenset({0}))] * 2 + [Near(frozenset(range(24, 48)), frozenset({1}))] * 2


def slurm(answer: str) -> tuple[list[Sequence[str]], object]:
    """(what sinfo was asked, a question that gives this answer)."""
    asked: list[Sequence[str]] = []

    def question(argv: Sequence[str]) -> str:
        asked.append(argv)
        return answer

    return asked, question


def test_slurm_says_how_many_processors_a_node_has() -> None:
    asked, question = slurm("96\n96\n")
    place = {"partition": "nc96", "nodelist": None}
    assert processors_of_node("sbatch", NCV4, place, {}, question) == 96  # type: ignore[arg-type]
    assert asked == [["sinfo", "--noheader", "--format=%c", "--partition=nc96"]]
    sets = cpu_sets(NCV4, 4, 96)
    check_sets(sets, NCV4)
    assert [min(each) for each in sets] == [0, 24, 48, 72]


def test_nodes_of_several_sizes_have_no_masks_in_common_unless_the_topology_names_them() -> None:
    _, question = slurm("96\n128+\n")
    with pytest.raises(UsageError, match="have 96 or 128 processors, and one set of masks cannot fit them all"):
        processors_of_node("sbatch", NCV4, {}, {}, question)  # type: ignore[arg-type]
    assert processors_of_node("sbatch", WHOLE, {}, {}, question) == 96  # type: ignore[arg-type]


def test_inside_an_allocation_its_nodes_are_asked_for() -> None:
    asked, question = slurm("")
    inside = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "a[1-2],b7", "SLURM_JOB_CPUS_PER_NODE": "48(x3)"}
    assert processors_of_node("srun", NCV4, {}, inside, question) == 48  # type: ignore[arg-type]
    assert "--nodes=a[1-2],b7" in asked[0]


def test_nobody_says_it_and_the_topology_leaves_it_open() -> None:
    _, question = slurm("sinfo: error\n")
    for launcher in ("sbatch", "mpirun", "hydra", "k8s"):
        with pytest.raises(UsageError, match="--cpus-per-node N"):
            processors_of_node(launcher, NCV4, {}, {}, question)  # type: ignore[arg-type]
        assert processors_of_node(launcher, WHOLE, {}, {}, question) == 48  # type: ignore[arg-type]


def test_masks_that_overlap_or_miss_their_gpu_are_refused() -> None:
    check_sets(cpu_sets(WHOLE, 4, 48), WHOLE)
    with pytest.raises(UsageError, match="local ranks 0 and 1 would share processors 0"):
        check_sets([frozenset({0})] * 4, NCV4)
    with pytest.raises(UsageError, match="local rank 0 would run on processors 30, none of them next to its GPU"):
        check_sets([frozenset({30})], WHOLE)
    with pytest.raises(UsageError, match="leaves no processor to local rank 1"):
        check_sets([frozenset({0}), frozenset()], WHOLE)


def job(*words: str) -> JobSpec:
    return build_job(
        understand("all_reduce", words).launch, Program(Path("/engine"), ("all_reduce",), 1), {}, Path("/r")
    )


def test_fewer_processors_than_the_topology_names_are_refused(tmp_path: Path) -> None:
    topology = tmp_path / "topo.txt"
    rows = "".join(f"GPU{gpu}\tX\tX\tX\tX\t{24 * gpu}-{24 * gpu + 23}\t{gpu}\n" for gpu in range(4))
    topology.write_text(f"\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n{rows}")
    words = ("--launcher", "slurm", "--gpus-per-node", "4", "--topology", str(topology), "--cpus-per-node")
    assert len(job(*words, "96").cpu_sets) == 4
    with pytest.raises(UsageError, match="--cpus-per-node 2, but by the topology a GPU is next to processor 95"):
        job(*words, "2")


def test_a_launch_inside_an_allocation_takes_all_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "16")
    found = job("--launcher", "slurm", "--gpus-per-node", "8")
    assert (found.nodes, found.ranks) == (16, 128)
    assert job("--launcher", "slurm", "--gpus-per-node", "8", "--nodes", "2").nodes == 2
    assert job("--launcher", "srun", "--ranks", "32").nodes == 16
    with pytest.raises(UsageError, match="over the 16 nodes of this allocation; say with --nodes"):
        job("--launcher", "slurm", "--ranks", "8")
    with pytest.raises(UsageError, match="--nodes 20, but this allocation has 16"):
        job("--launcher", "slurm", "--nodes", "20", "--gpus-per-node", "8")
    assert job("--launcher", "slurm", "--nodes", "4", "--ranks", "8").nodes == 4
    assert job("--launcher", "sbatch", "--ranks", "8").nodes == 1, "a batch job asks for an allocation of its own"


def test_a_name_that_does_not_resolve_is_told_within_two_seconds() -> None:
    before = time.monotonic()
    with pytest.raises(UserError, match=r"the host nosuch-1\.invalid \(and 1 more\) cannot be resolved here"):
        check_names(["localhost", "nosuch-1.invalid", "nosuch-2.invalid"])
    assert time.monotonic() - before < 2.5


def test_a_name_server_that_is_silent_does_not_stop_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: time.sleep(5))
    before = time.monotonic()
    check_names(["slow"], limit_s=0.1)
    assert time.monotonic() - before < 2


def test_flags_of_pyxis_go_to_the_step_of_a_batch_job() -> None:
    from dataclasses import replace

    plan = sbatch.plan(replace(JOB, launcher_arguments=("--container-workdir=/w", "--qos=high")))
    assert plan.submission is not None and "--qos=high" in plan.submission.submit
    assert "--container-workdir=/w" not in plan.submission.submit
    assert "  --container-workdir=/w \\\n" in plan.files[0].text.partition("exec srun")[2]


def test_a_dry_run_of_torch_bench_needs_no_torch(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "torch-bench",
        "all_reduce",
        "--ranks",
        "2",
        "--launcher",
        "torchrun",
        "--python",
        "/no/python",
        "--dry-run",
    ]
    assert main(words) == 0
    assert "/no/python -m busbw.torch_bench.rank" in capsys.readouterr().out
