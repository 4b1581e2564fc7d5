"""What a user asks for becomes a job, or one sentence that says what does not fit together."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.base.options import LAUNCH, MEASURING, options_of
from busbw.cli.arguments.measuring import understand
from busbw.cli.launching import plan_of
from busbw.cli.main import main
from busbw.launch.hosts import parse_hostfile
from busbw.launch.job import Host, JobSpec, Mpi
from busbw.launch.request import Program, build_job, find_program, flavour_of

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference"


def job(*words: str, per_process: int = 1) -> JobSpec:
    """The job of these launch words."""
    return build_job(
        understand("all_reduce", words).launch,
        Program(Path("/engine"), ("all_reduce",), per_process),
        {},
        Path("/runs/one"),
    )


def test_launch_words_are_taken_out_wherever_they_stand() -> None:
    asked = understand("reduce", ["-b", "8", "--launcher", "slurm", "-n5", "--nodes=2", "--exclusive", "-e", "1G"])
    assert (asked.launch.launcher, asked.launch.nodes, asked.launch.exclusive) == ("slurm", 2, True)
    assert asked.engine_words == ("-b", "8", "-n5", "-e", "1G")


def test_without_launch_words_nothing_is_taken() -> None:
    assert not understand("reduce", ["-b", "8", "-T", "5"]).starts_ranks


def test_one_rank_per_gpu_of_every_node_unless_a_process_has_several() -> None:
    assert job("--launcher", "slurm", "--nodes", "2", "--gpus-per-node", "8").ranks == 16
    assert job("--launcher", "slurm", "--nodes", "2", "--gpus-per-node", "8", per_process=8).ranks == 2
    assert job("--launcher", "slurm", "--nodes", "2", "--ranks-per-node", "3").ranks == 6


@pytest.mark.parametrize(("words", "ranks"), [("-g 8", 8), ("-t 2 -g4", 8), ("--ngpus=4", 4), ("-b 8", 1), ("-n 8", 1)])
def test_threads_and_devices_are_seen_in_the_engines_words(words: str, ranks: int) -> None:
    assert understand("reduce", words.split()).ranks_per_process == ranks


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a slots=8\nb slots=8 max_slots=9\n", (Host("a", 8), Host("b", 8))),
        ("# all\na:4 # first\n\nb\n", (Host("a", 4), Host("b"))),
    ],
)
def test_host_files_of_open_mpi_and_mpich_are_read(text: str, hosts: tuple[Host, ...]) -> None:
    assert parse_hostfile(text, "hosts") == hosts


@pytest.mark.parametrize("slots", ["x", "", "8x", "-1"])
def test_slots_that_are_no_number_are_refused(slots: str) -> None:
    with pytest.raises(UserError, match=rf"hosts:2: slots={slots} is no number of ranks"):
        parse_hostfile(f"a slots=8\nb slots={slots}\n", "hosts")


def test_threads_that_are_no_number_are_refused_before_anything_starts() -> None:
    with pytest.raises(UserError, match=r"-g \(--ngpus\): it takes a whole number, not 'x'"):
        assert understand("reduce", ["-g", "x"]).ranks_per_process


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("mpirun.openmpi (OpenRTE) 4.1.4\n\nReport bugs to ...", Mpi.OPEN_MPI_4),
        ("mpirun (Open MPI) 4.1.7a1\n", Mpi.OPEN_MPI_4),
        ("mpirun (Open MPI) 5.0.3\n", Mpi.OPEN_MPI_5),
        ("HYDRA build details:\n    Version: 4.0.2\n", Mpi.HYDRA),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.9", Mpi.HYDRA),
        ("", Mpi.OPEN_MPI_4),
    ],
)
def test_an_mpirun_is_known_by_its_version(said: str, found: Mpi) -> None:
    assert flavour_of(said) is found


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--launcher slurm", "how many ranks"),
        ("--ranks 0", "at least 1"),
        ("--ranks 3 --launcher slurm --nodes 2", "shared out equally"),
        ("--ranks 9 --launcher slurm --nodes 2 --ranks-per-node 4", "contradicts"),
        ("--ranks 99999", "more than"),
        ("--ranks 2 --nodes 2", "--launcher local has one node"),
        ("--ranks 2 --partition x", "belongs to slurm"),
        ("--ranks 2 --launcher slurm --hosts a", "belongs to mpirun, hydra"),
        ("--launcher mpirun --ranks 2 --nodes 2", "--hosts or --hostfile"),
        ("--launcher mpirun --ranks 6 --nodes 3 --hosts a:2,b:2", "only 2 hosts are named: a, b"),
        ("--launcher mpirun --ranks 8 --hosts a:2,b:2", "host a takes 2 ranks, but 4"),
        ("--launcher mpirun --ranks 8 --hosts a;b", "is no host"),
        ("--launcher mpirun --ranks 8 --hostfile /no/file", "cannot be read"),
        ("--launcher torchrun --ranks 4 --nodes 2", "--rdzv-endpoint"),
        ("--launcher torchrun --ranks 4 --nodes 2 --rdzv-endpoint a:1 --node-rank 2", "count from 0"),
        ("--ranks 2 --time-limit 20x", "write it as 90s"),
        ("--ranks 2 --env A-B=1", "cannot name a variable"),
        ("--ranks 2 --env NO_SUCH_VARIABLE_HERE", "no such variable"),
        ("--ranks 2 --launcher slurm --gpus-per-node 8 --bind gpu", "--topology"),
        ("--ranks 2 --topology /no/file", "cannot be read"),
        ("--ranks 2 --launcher gossip", "takes one of local, mpirun"),
    ],
)
def test_what_does_not_fit_together_is_one_sentence(words: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busbw.launch.affinity.from_sysfs", list)
    with pytest.raises(UserError, match=why) as caught:
        job(*words.split())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", ["a b", "a\n#SBATCH --account=theirs", "", "a'b", "$(id)"])
def test_no_name_of_slurms_smuggles_a_second_one(value: str) -> None:
    with pytest.raises(UserError, match="--partition"):
        job("--launcher", "slurm", "--ranks", "2", "--partition", value)


def test_a_launcher_that_is_not_installed_is_one_sentence(
    fake_engine: Path, runs_of_this_test: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match="needs srun, which was not found; install it"):
        find_program("srun", "slurm", {"PATH": "/nowhere"})
    words = ["all_reduce", "--launcher", "torchrun", "--launcher-program", "/no/torchrun", "--ranks", "2"]
    assert main(words) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert not runs_of_this_test.exists()


def test_a_dry_run_prints_and_starts_nothing(
    fake_engine: Path, runs_of_this_test: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sendrecv", "-b", "8", "--launcher", "sbatch", "--ranks", "2", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "#SBATCH --job-name=busbw" in shown and shown.splitlines()[-1].startswith("sbatch --parsable")
    assert not runs_of_this_test.exists()


def test_a_word_of_the_launchers_own_reaches_it_in_either_spelling() -> None:
    for words in (("--launcher-arg", "--allow-run-as-root"), ("--launcher-arg=--allow-run-as-root",)):
        [process] = plan_of("mpirun", job("--launcher", "mpirun", "--ranks", "2", *words)).processes
        assert process.argv.index("--allow-run-as-root") < process.argv.index("/engine")


def test_open_mpi_5s_own_runtime_is_told_whose_ranks_it_starts() -> None:
    for program, personality in (("/opt/bin/prterun", True), ("mpirun", False)):
        wanted = job("--launcher", "mpirun", "--ranks", "2", "--launcher-program", program)
        [process] = plan_of("mpirun", replace(wanted, mpi=Mpi.OPEN_MPI_5)).processes
        assert (process.argv[1:3] == ("--personality", "ompi")) is personality


def test_an_option_of_torchrun_that_is_not_ours_is_told_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BUSBW_ENGINE", raising=False)
    for verb in ("all_reduce", "torch-bench"):
        words = [verb, *(["all_reduce"] if verb == "torch-bench" else []), "--ranks", "2", "--launcher", "torchrun"]
        assert main([*words, "--no-python"]) == 2
        err = capsys.readouterr().err
        assert "no option '--no-python'" in err and err.count("\n") == 1


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="skipped: this Python has torch")
def test_below_torchrun_a_missing_torch_is_one_sentence_for_the_host(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = {"RANK": "8", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "MASTER_ADDR": "a", "MASTER_PORT": "29500"}
    for local in ("0", "1"):
        for name, value in {**place, "LOCAL_RANK": local}.items():
            monkeypatch.setenv(name, value)
        assert main(["torch-bench", "all_reduce"]) == 1
        err = capsys.readouterr().err
        assert ("has no torch, and a launcher started us" in err, err.count("\n")) == (
            (True, 1) if local == "0" else (False, 0)
        )


def test_every_launch_option_is_in_the_reference() -> None:
    page = (REFERENCE / "run.md").read_text()
    assert not [each.name for each in options_of(MEASURING) if each.half == LAUNCH and f"--{each.name}" not in page]


def test_ranks_that_end_well_without_a_record_are_told_of(
    tmp_path: Path, runs_of_this_test: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "engine-of-another-host"
    elsewhere.write_text("#!/bin/sh\nexit 0\n")
    elsewhere.chmod(0o755)
    monkeypatch.setenv("BUSBW_ENGINE", str(elsewhere))
    assert main(["reduce", "--ranks", "2"]) == 1
    assert "no record came to" in capsys.readouterr().err
    assert main(["reduce", "--ranks", "2", "--help"]) == 0
    assert not list(runs_of_this_test.glob("*"))
