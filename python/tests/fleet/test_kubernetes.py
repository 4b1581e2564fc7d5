"""`busbw fleet run --launcher k8s`: a Job on the nodes of each group, by a kubectl that answers for a cluster."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.fleet.run import Limits, waves
from busbw.fleet.trial import WITHIN, Trial

EXAMPLE = Path(__file__).resolve().parents[3] / "schema" / "examples" / "all_reduce-v1.jsonl"
KUBECTL = """\
import json, pathlib, re, sys
here = pathlib.Path(__file__).parent
words = [word for word in sys.argv[1:] if not word.startswith("--namespace")]
with (here / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
if words[0] == "apply" and words[-1] != "-":
    text = pathlib.Path(words[-1]).read_text()
    name = re.search(r"busbw.dev/job: \\"?([a-z0-9-]+)", text)[1]
    (here / f"{name}.yaml").write_text(text)
elif words[:2] == ["get", "job"]:
    print(json.dumps({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}))
elif words[0] == "logs":
    name = re.search(r"busbw.dev/job=([a-z0-9-]+)", " ".join(words))[1]
    level = 9.0 if "n2" in (here / f"{name}.yaml").read_text() else 10.0
    for line in (here / "log").read_text().splitlines():
        record = json.loads(line)
        if record["kind"] != "case":
            print(line)
        elif record["case"] == 0:
            for number in range(3):
                busbw = level * (1 + 0.002 * (number - 1))
                print(json.dumps({**record, "case": number, "busbw_GBps": busbw, "algbw_GBps": busbw}))
"""


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A fleet of four nodes, of which n2 is slow."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    (folder / "kubectl.py").write_text(KUBECTL)
    (folder / "kubectl").write_text(f'#!/bin/sh\nexec {sys.executable} -S {folder}/kubectl.py "$@"\n')
    (folder / "kubectl").chmod(0o755)
    (folder / "log").write_text(EXAMPLE.read_text())
    return ["fleet", "run", str(tmp_path / "f.jsonl"), "--hosts", "n[0-3]", "--rails", "1", "--inside", "none",
            "--launcher", "k8s", "--launcher-program", str(folder / "kubectl"), "--repeats", "3",
            "--no-record"]  # fmt: skip


def test_a_job_runs_on_the_nodes_of_each_group_and_none_is_left(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--image", "i", "--namespace", "lab", "--env", "NCCL_DEBUG=WARN", "--json"]) == 1
    found = {(each["kind"], each["place"]) for each in json.loads(capsys.readouterr().out)["faults"]}
    assert found == {("link", "n2")}
    manifests = [file.read_text() for file in (tmp_path / "cluster").glob("*.yaml")]
    assert all("kubernetes.io/hostname" in text and "podAntiAffinity" in text for text in manifests)
    assert all("NCCL_DEBUG" in text for text in manifests)
    calls = (tmp_path / "cluster" / "calls").read_text().splitlines()
    assert all("--namespace=lab" in call for call in calls)
    assert sum(" delete " in call for call in calls) == len(manifests)


def test_what_cannot_be_is_one_sentence(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "--image IMAGE" in capsys.readouterr().err
    assert main([*words, "--image", "i", "--program", sys.executable]) == 2
    assert "--program is for srun and mpirun" in capsys.readouterr().err


def test_rails_of_a_node_are_measured_one_after_another_where_a_pod_has_all_its_gpus() -> None:
    trials = [Trial(WITHIN, nodes, f"rail{rail}", 3) for rail in range(2) for nodes in (("a", "b"), ("c", "d"))]
    assert [len(wave) for wave in waves(trials, Limits())] == [4]
    assert [len(wave) for wave in waves(trials, Limits(), by_turns=True)] == [2, 2]
