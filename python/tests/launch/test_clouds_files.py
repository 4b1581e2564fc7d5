"""Files for AWS and Google: patches of a Job keep what busbw wrote, fit the client's types, and reach kubectl."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import stat
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jobs import JOB

from busbw.launch.job import KubernetesOptions
from busbw.launch.kubernetes import plan

yaml = pytest.importorskip("yaml")

FOLDER = Path(__file__).resolve().parents[3] / "containers"
PATCHES = sorted((FOLDER / "kubernetes").glob("*.yaml"))
WRAPPER = FOLDER / "kubernetes" / "kubectl-with-patch"


def job_manifests(tmp_path: Path) -> list[dict[str, Any]]:
    """What busbw renders: a Service and a Job."""
    job = replace(JOB, folder=tmp_path, kubernetes=KubernetesOptions(image="registry.example.com/busbw:1"))
    (text,) = (each.text for each in plan(job).files if each.path.name == "job.yaml")
    return list(yaml.safe_load_all(text))


def merged(base: Any, patch: Any) -> Any:
    """A strategic merge as far as these patches use it: members of lists are those of the same name."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return base | {key: merged(base[key], value) if key in base else value for key, value in patch.items()}
    named = isinstance(base, list) and isinstance(patch, list) and all("name" in each for each in (*base, *patch))
    if named:
        kept = {each["name"]: each for each in base}
        for each in patch:
            kept[each["name"]] = merged(kept.get(each["name"], {}), each)
        return list(kept.values())
    return patch


def misfits(value: Any, kind: str, models: Any, where: str = "") -> list[str]:
    """Members that the official client does not know, or of another type than it says."""
    if inner := re.fullmatch(r"(?:list\[(.+)\])|(?:dict\(str, (.+)\))", kind):
        items = enumerate(value) if isinstance(value, list) else value.items()
        return [said for key, each in items for said in misfits(each, inner[1] or inner[2], models, f"{where}/{key}")]
    simple: dict[str, tuple[type, ...]] = {"str": (str, int), "int": (int,), "bool": (bool,), "object": (object,)}
    if kind in simple:
        return [] if isinstance(value, simple[kind]) else [f"{where}: {value!r} is no {kind}"]
    model = getattr(models, kind)
    known = {name: model.openapi_types[member] for member, name in model.attribute_map.items()}
    unknown = [f"{where}/{name} is unknown to {kind}" for name in value if name not in known]
    inside = [misfits(each, known[name], models, f"{where}/{name}") for name, each in value.items() if name in known]
    return unknown + [said for part in inside for said in part]


@pytest.mark.parametrize("patch", PATCHES, ids=lambda each: each.stem)
def test_a_patched_job_keeps_what_busbw_wrote(patch: Path, tmp_path: Path) -> None:
    _, job = job_manifests(tmp_path)
    made = merged(job, yaml.safe_load(patch.read_text(encoding="utf-8")))
    before, after = (each["spec"]["template"]["spec"]["containers"] for each in (job, made))
    assert [each["name"] for each in after] == [each["name"] for each in before] == ["busbw"]
    assert after[0]["command"] == before[0]["command"] and after[0]["image"] == before[0]["image"]
    assert {each["name"] for each in before[0]["env"]} < {each["name"] for each in after[0]["env"]}
    mounts = {each["name"] for each in after[0]["volumeMounts"]}
    assert mounts == {each["name"] for each in made["spec"]["template"]["spec"]["volumes"]}


@pytest.mark.parametrize("patch", [None, *PATCHES], ids=lambda each: each.stem if each else "as it is")
def test_a_job_fits_the_official_clients_types(patch: Path | None, tmp_path: Path) -> None:
    try:
        models = importlib.import_module("kubernetes.client.models")
    except ImportError:
        pytest.skip("skipped: no official Kubernetes client (pip install kubernetes==31.0.0)")
    if not hasattr(models.V1Job, "attribute_map"):
        pytest.skip("skipped: this Kubernetes client tells its types otherwise (pip install kubernetes==31.0.0)")
    service, job = job_manifests(tmp_path)
    if patch is not None:
        job = merged(job, yaml.safe_load(patch.read_text(encoding="utf-8")))
    assert misfits(service, "V1Service", models) == [] and misfits(job, "V1Job", models) == []
    job["spec"]["template"]["spec"]["containers"][0]["imageName"] = "wrong"
    assert misfits(job, "V1Job", models) == ["/spec/template/spec/containers/0/imageName is unknown to V1Container"]


FAKE = """#!/bin/sh
# Shows what it was called with; `kustomize DIR` prints what lies there.
if [ "$1" = kustomize ]; then cat "$2/kustomization.yaml" "$2/patch.yaml" "$2/manifest.yaml"; exit; fi
for word in "$@"; do last=$word; done
echo "kubectl $1" "$2"
[ ! -f "$last" ] || cat "$last"
"""


def through_wrapper(tmp_path: Path, *words: str, patch: Path = PATCHES[0]) -> subprocess.CompletedProcess[str]:
    fake = tmp_path / "kubectl"
    fake.write_text(FAKE)
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "BUSBW_KUBERNETES_PATCH": str(patch)}
    return subprocess.run(
        [str(WRAPPER), *words], check=False, capture_output=True, text=True, timeout=60, env=environment
    )


def test_what_is_applied_is_patched_first(tmp_path: Path) -> None:
    manifest = tmp_path / "job.yaml"
    manifest.write_text("kind: Job\n")
    done = through_wrapper(tmp_path, "--namespace=n", "apply", "-f", str(manifest))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("kubectl --namespace=n apply\nresources: [manifest.yaml]")
    assert "vpc.amazonaws.com/efa" in done.stdout and done.stdout.endswith("kind: Job\n")


@pytest.mark.parametrize("patch", PATCHES, ids=lambda each: each.stem)
def test_kubectls_own_merge_is_the_one_that_was_checked(patch: Path, tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("skipped: no kubectl, whose kustomize merges the patch")
    (tmp_path / "manifest.yaml").write_text(yaml.safe_dump_all(job_manifests(tmp_path)))
    shown = tmp_path / "shown"
    between = tmp_path / "kubectl"
    # Merges with the real one, and keeps what would be applied.
    between.write_text(
        f'#!/bin/sh\nif [ "$1" = kustomize ]; then exec {kubectl} "$@"; fi\n'
        f'for word in "$@"; do last=$word; done\nif [ "$last" = - ]; then cat; else cat "$last"; fi >{shown}\n'
    )
    between.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "BUSBW_KUBERNETES_PATCH": str(patch)}
    argv = [str(WRAPPER), "--namespace=n", "apply", "-f", str(tmp_path / "manifest.yaml")]
    subprocess.run(argv, check=True, capture_output=True, timeout=60, env=environment)
    applied = {each["kind"]: each for each in yaml.safe_load_all(shown.read_text())}
    _, job = job_manifests(tmp_path)
    wanted = merged(job, yaml.safe_load(patch.read_text(encoding="utf-8")))
    assert set(applied) == {"Service", "Job"}
    assert in_any_order(applied["Job"]["spec"]) == in_any_order(wanted["spec"])


def in_any_order(value: Any) -> Any:
    """Lists of named members without their order, which kustomize may change."""
    if isinstance(value, dict):
        return {key: in_any_order(each) for key, each in value.items()}
    if isinstance(value, list) and all(isinstance(each, dict) and "name" in each for each in value):
        return {each["name"]: in_any_order(each) for each in value}
    return value


@pytest.mark.parametrize("words", [("--namespace=n", "get", "job"), ("--namespace=n", "apply", "-f", "-")])
def test_everything_else_goes_on_as_it_is(words: tuple[str, ...], tmp_path: Path) -> None:
    done = through_wrapper(tmp_path, *words)
    assert (done.returncode, done.stdout) == (0, f"kubectl {words[0]} {words[1]}\n")


def test_a_manifest_that_the_patch_would_pass_by_is_refused(tmp_path: Path) -> None:
    manifest = tmp_path / "mpijob.yaml"
    manifest.write_text("kind: MPIJob\n")
    done = through_wrapper(tmp_path, "apply", "-f", str(manifest))
    assert done.returncode == 1 and done.stderr.endswith("has none; measure with --kind job\n") and not done.stdout


def test_a_patch_that_is_missing_is_one_sentence(tmp_path: Path) -> None:
    done = through_wrapper(tmp_path, "apply", "-f", "x", patch=tmp_path / "none.yaml")
    assert done.returncode == 1 and done.stderr == f"kubectl-with-patch: {tmp_path}/none.yaml cannot be read\n"


def test_the_cluster_of_parallelcluster_has_slurm_efa_and_a_shared_folder() -> None:
    cluster = yaml.safe_load((FOLDER / "parallelcluster.yaml").read_text(encoding="utf-8"))
    (queue,) = cluster["Scheduling"]["SlurmQueues"]
    assert cluster["Scheduling"]["Scheduler"] == "slurm" and queue["ComputeResources"][0]["Efa"] == {"Enabled": True}
    assert (
        queue["Networking"]["PlacementGroup"] == {"Enabled": True}
        and cluster["SharedStorage"][0]["MountDir"] == "/shared"
    )


CHECK = """\
import sys, yaml
from pcluster.schemas.cluster_schema import ClusterSchema
ClusterSchema(cluster_name="busbw").load(yaml.safe_load(sys.stdin))
"""


def test_parallelclusters_own_schema_accepts_the_cluster() -> None:
    python = os.environ.get("BUSBW_TEST_PCLUSTER")
    if not python:
        pytest.skip("skipped: no ParallelCluster; BUSBW_TEST_PCLUSTER names a Python with aws-parallelcluster")
    text = (FOLDER / "parallelcluster.yaml").read_text(encoding="utf-8")
    named = re.sub("SUBNET-(PUBLIC|PRIVATE)", "subnet-0123456789abcdef0", text)
    for cluster, fits in ((named, True), (named.replace("MinCount", "MinimumCount"), False)):
        environ = {**os.environ, "AWS_DEFAULT_REGION": "us-east-2"}
        argv = [python, "-W", "ignore", "-c", CHECK]
        done = subprocess.run(
            argv, input=cluster, env=environ, capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode == 0) is fits, done.stderr[-500:]
