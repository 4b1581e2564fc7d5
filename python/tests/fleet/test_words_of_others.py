"""What is printed for schedulers and programs, read by those themselves: Slurm's scontrol, kubectl, Prometheus, XML."""

from __future__ import annotations

import random
import shlex
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from busbw.base.prometheus import write_exposition
from busbw.fleet import show
from busbw.fleet.fabric import Fabric, expand
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.verdict import Verdict
from busbw.fleet.words import compressed
from busbw.launch.hosts import once, read_hostfile

HOSTILE = 'it\'s "bad" \\ <&> ]]> $(reboot) `reboot`\n\x1b[31m é'
VERDICTS = [
    Verdict("broken", "gpu003", "", 1.0, 0.0, HOSTILE),
    Verdict("link", "rack1-n01.site", "rail2", 0.3, 0.01),
    Verdict("cable", "gpu012", "rail1", 0.2, 0.01),
    Verdict("shared", "gpu[020-025]", "rail0", 0.1, 0.01),
    Verdict("spine", "", "rail1", 0.1, 0.01),
    Verdict("either", "link a-b or link x_1", "rail0", 0.1, 0.01),
]
NODES = (*(f"gpu{number:03d}" for number in range(1, 40)), "rack1-n01.site", "a-b", "x_1")
BAD = {"gpu003", "rack1-n01.site", "gpu012"}


@pytest.fixture
def fabric() -> Fabric:
    return Fabric(NODES, dict.fromkeys(NODES[:20], "leaf1"), 4)


def lines(fabric: Fabric, words: str) -> list[str]:
    return list(show.exclude_lines(show.nodes_to_exclude(fabric, VERDICTS), fabric, words))


@pytest.fixture
def scontrol(tmp_path: Path) -> list[str]:
    program = shutil.which("scontrol")
    if not program:
        pytest.skip("Slurm is not installed")
    (tmp_path / "slurm.conf").write_text("ClusterName=c\nSlurmctldHost=localhost\n")
    return ["env", f"SLURM_CONF={tmp_path}/slurm.conf", program, "show", "hostnames"]


def hostnames(scontrol: list[str], listed: str) -> list[str]:
    done = subprocess.run([*scontrol, listed], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_slurm_reads_the_nodes_to_exclude(fabric: Fabric, scontrol: list[str]) -> None:
    [words] = lines(fabric, "srun")
    assert set(hostnames(scontrol, words.removeprefix("--exclude="))) == BAD


@pytest.mark.parametrize("seed", range(6))
def test_slurm_and_busbw_read_lists_alike(scontrol: list[str], seed: int) -> None:
    chance = random.Random(seed)
    names = {f"{stem}{number:0{width}d}{end}" for stem, width, end in (("n", 1, ""), ("n", 3, ""), ("r1-g", 2, "-ib"))
             for number in chance.sample(range(120), 30)}  # fmt: skip
    nodes = tuple(sorted(names, key=lambda _: chance.random()))
    assert sorted(hostnames(scontrol, compressed(nodes))) == sorted(nodes) == sorted(expand(compressed(nodes)))


@pytest.mark.parametrize("listed", ["n[1-3,7],m[01-02]", "rack[0-1]node[08-11]", "a,b[001-003],c1", "x[9-11]"])
def test_busbw_reads_lists_as_slurm_does(scontrol: list[str], listed: str) -> None:
    assert list(expand(listed)) == hostnames(scontrol, listed)


def test_a_shell_reads_the_drain_lines_as_words(fabric: Fabric) -> None:
    for line in lines(fabric, "slurm"):
        words = subprocess.run(["sh", "-c", f"printf '%s\\n' {line}"], capture_output=True, text=True, check=True)
        assert words.stdout.splitlines() == shlex.split(line)
        assert [word.partition("=")[0] for word in shlex.split(line)[2:]] == ["NodeName", "State", "Reason"]


def test_the_host_file_has_the_good_nodes(fabric: Fabric, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("\n".join(lines(fabric, "hostfile")))
    assert set(once(read_hostfile(tmp_path / "hosts"))) == set(NODES) - BAD


def test_cordon_lines_name_each_node_once(fabric: Fabric) -> None:
    assert [shlex.split(line) for line in lines(fabric, "kubernetes")] == [
        ["kubectl", "cordon", node] for node in show.nodes_to_exclude(fabric, VERDICTS)]  # fmt: skip


def test_prometheus_reads_the_metrics(fabric: Fabric, tmp_path: Path) -> None:
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client is not installed")
    write_exposition(tmp_path / "m.prom", show.metrics(fabric, Knowledge(), VERDICTS))
    found = {
        each.name: each.samples for each in parser.text_string_to_metric_families((tmp_path / "m.prom").read_text())
    }
    assert {s.labels["node"] for s in found["busbw_fleet_node_excluded"] if s.value == 1} == BAD
    assert len(found["busbw_fleet_fault_loss_ratio"]) == len(VERDICTS)


def test_xml_readers_read_the_junit_file(fabric: Fabric) -> None:
    root = ET.fromstring(show.junit(fabric, VERDICTS))
    failed = {case.get("name") for case in root.iter("testcase") if case.find("failure") is not None}
    assert failed >= BAD
    assert len(list(root.iter("testcase"))) >= len(NODES)
