"""`busbw fleet run --launcher k8s` by the real kubectl, against a server that plays what goes wrong in clusters."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from cluster import Cluster, serve

ROOT = Path(__file__).resolve().parents[3]
RECORD = (ROOT / "schema" / "examples" / "all_reduce-v1.jsonl").read_text().splitlines()
KUBECTL = shutil.which("kubectl")
SLOWEST = {"slow", "unschedulable"}
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")


class Played:
    """What a fleet of four nodes said and left."""

    def __init__(self, folder: Path, cluster: Cluster, words: tuple[str, ...]) -> None:
        server = serve(cluster)
        try:
            options = (
                f"--server=http://127.0.0.1:{server.server_port} --cache-dir={folder}/cache --kubeconfig=/dev/null"
            )
            program = folder / "kubectl"
            # The stand-in has no schemas for kubectl's own check of what it applies.
            program.write_text(f'#!/bin/sh\ncase " $* " in *" apply "*) set -- "$@" --validate=false;; esac\n'
                               f'exec {KUBECTL} {options} "$@"\n')  # fmt: skip
            program.chmod(0o755)
            argv = [sys.executable, "-m", "busbw", "fleet", "run", str(folder / "f.jsonl"), "--hosts", "n[0-3]",
                    "--rails", "1", "--inside", "none", "--launcher", "k8s", "--launcher-program", str(program),
                    "--repeats", "3", "--no-record", "--image", "i", "--json", *words]  # fmt: skip
            done = subprocess.run(argv, env={"PYTHONPATH": str(ROOT / "python"), "PATH": "/usr/bin:/bin",
                                             "HOME": str(folder)},
                                  capture_output=True, text=True, timeout=240, check=False)  # fmt: skip
        finally:
            server.shutdown()
            server.server_close()
        self.code, self.said, self.left = done.returncode, done.stderr, list(cluster.objects)
        self.faults: list[dict[str, Any]] = json.loads(done.stdout)["faults"] if done.stdout.startswith("{") else []
        lines = (folder / "f.jsonl").read_text().splitlines()[1:] if (folder / "f.jsonl").exists() else []
        self.reasons = {node: one["reason"] for one in map(json.loads, lines) if one.get("reason")
                        for node in one["nodes"]}  # fmt: skip


FATES = (
    ("image", "ImagePullBackOff: Back-off pulling image"),
    ("evicted", "Evicted: The node was low on resource: ephemeral-storage. (on n3)"),
    ("preempted", "PreemptionByScheduler: default-scheduler: preempting"),
    ("oom", "OOMKilled: a container had too little memory (on n3)"),
    ("unschedulable", "Unschedulable: 0/6 nodes are available: 1 node(s) were unschedulable"),
)
RIGHTS = (
    ("create jobs", 'jobs is forbidden: User "me" cannot create jobs'),
    ("create secrets", "cannot create secrets"),
    ("get jobs", "cannot get jobs"),
    ("get pods/log", "does not show what the pods wrote"),
)


def clusters() -> dict[str, tuple[Cluster, tuple[str, ...]]]:
    """Each play's cluster and further words."""
    found = {fate: (Cluster(RECORD, fates={"n3": fate}), ("--trial-limit", "15" if fate == "unschedulable" else "60"))
             for fate, _ in FATES}  # fmt: skip
    found |= {verb: (Cluster(RECORD, forbidden=frozenset([verb])), ()) for verb, _ in RIGHTS}
    kept = Cluster(RECORD, fates={"n3": "evicted"}, forbidden=frozenset(["delete jobs"]))
    slow = Cluster(RECORD, levels={"n2": 8.0}, dropped=0.05, busy=0.05, slow_s=0.05)
    return {**found, "kept": (kept, ()), "slow": (slow, ("--trial-limit", "120"))}


Plays = Callable[[str], Played]


@pytest.fixture(scope="module")
def played_by(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plays]:
    """All plays begin at once, a few side by side, each in a folder of its own: most of their time they wait."""
    with ThreadPoolExecutor(6) as pool:
        begun = {
            name: pool.submit(Played, tmp_path_factory.mktemp("play"), *clusters()[name])
            for name in sorted(clusters(), key=lambda each: each not in SLOWEST)
        }
        yield lambda name: begun[name].result()


@pytest.mark.parametrize(("fate", "why"), FATES)
def test_a_node_on_which_pods_do_not_run_is_a_result_with_a_sentence(played_by: Plays, fate: str, why: str) -> None:
    played = played_by(fate)
    assert played.code == 1, played.said
    assert {(each["place"], each["loss"]) for each in played.faults} == {("n3", 1.0)}
    assert why in played.reasons["n3"]
    assert not played.left


@pytest.mark.parametrize(("verb", "why"), RIGHTS)
def test_a_right_that_is_missing_is_one_sentence_and_accuses_no_node(played_by: Plays, verb: str, why: str) -> None:
    played = played_by(verb)
    assert played.code == 2
    assert why in played.said
    assert "no node is accused" in played.said
    assert "Traceback" not in played.said
    assert not played.left


def test_what_cannot_be_deleted_is_told(played_by: Plays) -> None:
    played = played_by("kept")
    assert {each["place"] for each in played.faults} == {"n3"}
    assert played.left  # nobody here may delete them; Kubernetes does, an hour after their end


def test_a_server_that_drops_delays_and_is_busy_costs_time_and_no_result(played_by: Plays) -> None:
    played = played_by("slow")
    assert {(each["kind"], each["place"]) for each in played.faults} == {("link", "n2")}, played.said
    assert not played.left
