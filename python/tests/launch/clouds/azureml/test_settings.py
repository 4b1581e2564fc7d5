"""The file of names is checked name by name, and what Azure ML would be told is shown without Azure."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.cli.main import main
from busbw.launch.clouds.azureml.documents import FIND_NODE_0, Measurement, job
from busbw.launch.clouds.azureml.settings import EXAMPLE, Settings, load

ROOT = Path(__file__).resolve().parents[5]
NASTY = 'it\'s "quoted"; $(touch /tmp/no) `id`\nsecond line'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "names.toml"
    path.write_text(EXAMPLE)
    return path


@pytest.fixture
def settings(file: Path) -> Settings:
    return load(file)


def test_the_example_is_a_file_that_can_be_read(settings: Settings) -> None:
    assert (settings.cluster.vm_size, settings.cluster.nodes) == ("Standard_ND96asr_v4", 2)


def test_the_subscription_may_come_from_the_environment(file: Path) -> None:
    file.write_text("\n".join(line for line in EXAMPLE.splitlines() if not line.startswith("subscription")))
    number = "11111111-2222-3333-4444-555555555555"
    assert load(file, {"AZURE_SUBSCRIPTION_ID": number}).azure.subscription == number
    with pytest.raises(UserError, match="subscription"):
        load(file, {})


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('name = "ndv4"', 'name = "nd v4"', "cluster.name is 'nd v4'"),
        ("nodes = 2", "nodes = 0", "cluster.nodes is 0"),
        ("nodes = 2", "nodes = true", "cluster.nodes is True"),
        ("nodes = 2", "notes = 2", r"\[cluster\] has no 'notes'"),
        ("gpus_per_node = 8", "", r"\[cluster\] lacks gpus_per_node"),
        ('"registry.example.com/busbw:1"', '"a b"', "environment.image"),
        ("[cluster]", "[clusters]", "no 'clusters'"),
        ('location = "southcentralus"', 'location = "South Central"', "a region such as"),
        ('"busbw"\nlocation', '"../x"\nlocation', "resource_group"),
        ("[azure]", "[azure", "is no TOML"),
        ('name = "ndv4"', 'name = "ndv4"\nidentity = "mine"', "system_assigned, none, or the id of a managed"),
    ],
)
def test_a_name_that_azure_would_refuse_is_one_sentence(old: str, new: str, why: str, file: Path) -> None:
    assert old in EXAMPLE
    file.write_text(EXAMPLE.replace(old, new, 1))
    with pytest.raises(UserError, match=why) as caught:
        load(file)
    assert "\n" not in str(caught.value)[:60]


def test_words_reach_the_engine_as_they_are(settings: Settings, tmp_path: Path) -> None:
    arguments = ("all_reduce", "-b", NASTY)
    program = tmp_path / "busbw-engine"
    program.write_text('#!/bin/sh\nfor word; do printf "%s\\0" "$word"; done; printf "%s" "$BUSBW_ADDRESS"\n')
    program.chmod(0o755)
    line = job(settings, Measurement(arguments, 2, 8))["command"]
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "AZ_BATCH_MASTER_NODE": "10.0.0.4:6000"}
    done = subprocess.run(["bash", "-c", line], env=environ, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split("\0") == [*arguments, "--record", "outputs/record.jsonl", "10.0.0.4"]
    assert not Path("/tmp/no").exists()
    assert (tmp_path / "outputs").is_dir()
    assert shlex.split(line.removeprefix(FIND_NODE_0))[0] == "busbw-engine"


@pytest.mark.parametrize(("ended", "code"), [(0, 0), (1, 0), (2, 2), (124, 124)])
def test_a_fleet_runs_once_on_each_node_and_its_faults_are_no_failure(
    ended: int, code: int, settings: Settings, tmp_path: Path
) -> None:
    program = tmp_path / "busbw"
    program.write_text(f'#!/bin/sh\nfor word; do printf "%s\\0" "$word"; done; pwd >here; exit {ended}\n')
    program.chmod(0o755)
    words = ("fleet", "run", "f.jsonl", "--env", NASTY)
    there = replace(settings, environment=replace(settings.environment, engine=f"{tmp_path}/busbw-engine"))
    line = job(there, Measurement(words, 2, 1))["command"]
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split("\0")[:-1] == list(words) and done.returncode == code
    assert (tmp_path / "outputs" / "here").exists() and not Path("/tmp/no").exists()


def test_what_azure_ml_would_replace_is_refused(settings: Settings) -> None:
    with pytest.raises(UserError, match="Azure ML replaces"):
        job(settings, Measurement(("all_reduce", "${{inputs.x}}"), 1, 1))


def test_a_dry_run_shows_every_resource_and_the_job(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["azureml", "setup", "--config", str(file), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    for kind in ("resource group", "workspace", "compute cluster", "environment"):
        assert f"# {kind} " in shown
    words = ["--dry-run", "--time-limit", "20m", "all_reduce", "-b", "8", "-g", "2"]
    assert main(["azureml", "submit", "--config", str(file), *words]) == 0
    shown = capsys.readouterr().out
    assert "instance_count: 2" in shown and "process_count_per_instance: 4" in shown and "timeout: 1200" in shown
    assert "exec busbw-engine all_reduce -b 8 -g 2 --record" in shown
    assert (
        main(["azureml", "submit", "--config", str(file), "--dry-run", "fleet", "run", "f.jsonl", "--rails", "4"]) == 0
    )
    shown = capsys.readouterr().out
    assert "instance_count: 2" in shown and "process_count_per_instance: 1" in shown and "type: mpi" in shown
    assert "cd outputs && busbw fleet run f.jsonl --rails 4 --no-record" in shown


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("submit",), "takes a collective"),
        (("submit", "--nodes", "3", "all_reduce"), "the cluster ndv4 has 2"),
        (("collect",), "name of one job"),
        (("setup", "--frob"), "no option '--frob'"),
        (("submit", "all_reduce", "--dry-run"), "starts its ranks itself"),
        (("launch",), "there are example, price, setup"),
        (("submit", "--time-limit", "soon", "all_reduce"), "write it as 90s"),
        (("submit", "fleet", "run", "a/f.jsonl"), "a name without a folder"),
        (("submit", "fleet", "run", "f.jsonl", "--hosts", "a,b"), "cannot choose its nodes"),
        (("submit", "fleet", "run", "f.jsonl", "--launcher", "mpirun"), "cannot choose its nodes"),
        (("submit", "fleet", "run", "f.jsonl", "--topology", "t"), "--topology means nothing in a job"),
        (("submit", "fleet", "judge", "f.jsonl"), "submit takes `fleet run FILE`"),
        (("submit", "fleet", "run", "f.jsonl", "--rail", "4"), "no option '--rail'"),
        (("submit", "--nodes", "1", "fleet", "run", "f.jsonl"), "one node alone has no partner"),
        (("submit", "--ranks-per-node", "8", "fleet", "run", "f.jsonl"), "one busbw on each node"),
    ],
)
def test_a_step_that_cannot_be_is_one_sentence(
    words: tuple[str, ...], why: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["azureml", words[0], "--config", str(file), *words[1:]]) == 2
    err = capsys.readouterr().err
    assert why in err and err.count("\n") == 1


def test_packages_that_are_missing_are_named(file: Path, tmp_path: Path) -> None:
    # An azure without ai.ml, before any other.
    (tmp_path / "azure").mkdir()
    (tmp_path / "azure" / "__init__.py").write_text("")
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT / 'python'}"}
    argv = [sys.executable, "-m", "busbw", "azureml", "setup", "--config", str(file)]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    # In a clone, a pip that happens to be on PATH would install them where this Python never looks.
    assert f"{sys.executable} -m pip install azure-ai-ml azure-identity" in done.stderr and done.stderr.count("\n") == 1


def test_a_dry_run_of_each_step_shows_what_that_step_would_do(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def shown(*words: str) -> str:
        assert main(["azureml", *words, "--config", str(file), "--dry-run"]) == 0
        return capsys.readouterr().out

    small, large = shown("teardown"), shown("teardown", "--everything")
    assert "delete compute cluster" in small and "keep resource group" in small and "delete resource" not in small
    order = [large.index(f"delete {kind}") for kind in ("compute cluster", "workspace", "resource group")]
    assert order == sorted(order)
    assert "min_instances" not in small + large, "what setup would make is no part of a teardown"
    found = shown("collect", "calm_rhubarb_1")
    assert (
        "follow the log of job calm_rhubarb_1 until it has ended" in found
        and "azureml-calm_rhubarb_1/record.jsonl" in found
    )
    assert main(["azureml", "collect", "--config", str(file), "--dry-run"]) == 2
    assert "cancel job calm_rhubarb_1; the cluster ndv4" in shown("cancel", "calm_rhubarb_1")
    assert "https://prices.azure.com/api/retail/prices" in shown("price")
    words = ["azureml", "submit", "--config", str(file), "--dry-run", "--wait", "all_reduce", "-b", "8"]
    assert main(words) == 0
    waited = capsys.readouterr().out
    assert "their price is not known here" in waited
    assert waited.index("exec busbw-engine") < waited.index("follow the log of job JOB until it has ended")
