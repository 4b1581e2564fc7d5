"""Manifests are what the schemas ask for and keep the words of the job; what kubectl answers is followed to the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from jobs import JOB, NASTY, PLAIN

from busbw.base.errors import UserError
from busbw.cli.main import main
from busbw.launch import kubernetes_queue
from busbw.launch.job import KubernetesOptions
from busbw.launch.kubernetes import START, indexed_job, job_set, mpi_job, plan, service
from busbw.launch.kubernetes_queue import divide, state_of, waiting_reason
from busbw.launch.submit import Phase
from busbw.launch.yaml_text import to_yaml
from busbw.records import read_record

SOURCE = Path(__file__).resolve().parents[2]
EXAMPLES = SOURCE.parent / "schema" / "examples"


def strict(required: str, **properties: Any) -> dict[str, Any]:
    """A schema of an object that has these members and no others."""
    words = required.split()
    return {"type": "object", "properties": properties, "required": words, "additionalProperties": False}


TEXT, COUNT, BOOLEAN = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
NAME = {"type": "string", "pattern": "^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"}
LABELS = {"type": "object", "additionalProperties": {"type": "string", "pattern": "^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"}}  # fmt: skip # noqa: E501
METADATA = strict("name labels", name=NAME, labels=LABELS)
SECRET_REFERENCE = strict("secretKeyRef", secretKeyRef=strict("name key", name=NAME, key=TEXT))
VARIABLE = strict("name", name={"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}, value=TEXT, valueFrom=SECRET_REFERENCE)  # fmt: skip # noqa: E501
CONTAINER = strict(
    "name image",
    name=NAME,
    image={"type": "string", "minLength": 1},
    command={"type": "array", "items": TEXT},
    env={"type": "array", "items": VARIABLE},
    resources=strict("limits", limits={"type": "object", "additionalProperties": {"type": ["integer", "string"]}}),
    volumeMounts={"type": "array", "items": strict("name mountPath", name=NAME, mountPath=TEXT)},
)
EXPRESSIONS = {"type": "array", "items": strict("key operator", key=TEXT, operator={"enum": ["In", "NotIn"]}, values={"type": "array", "items": TEXT})}  # fmt: skip # noqa: E501
TERMS = strict("nodeSelectorTerms", nodeSelectorTerms={"type": "array", "items": strict("", matchExpressions=EXPRESSIONS)})  # fmt: skip # noqa: E501
APART = strict("topologyKey labelSelector", topologyKey=TEXT, labelSelector=strict("", matchLabels=LABELS))
AFFINITY = strict(
    "",
    nodeAffinity=strict("", requiredDuringSchedulingIgnoredDuringExecution=TERMS),
    podAntiAffinity=strict("", requiredDuringSchedulingIgnoredDuringExecution={"type": "array", "items": APART}),
)
POD = strict(
    "restartPolicy containers",
    restartPolicy={"enum": ["Never", "OnFailure"]},
    containers={"type": "array", "items": CONTAINER, "minItems": 1},
    volumes={"type": "array", "items": strict("name", name=NAME, emptyDir=strict("", medium={"enum": ["", "Memory"]}))},
    subdomain=NAME,
    affinity=AFFINITY,
)
TEMPLATE = strict("spec", metadata=strict("labels", labels=LABELS), spec=POD)
JOB_SCHEMA = strict(
    "apiVersion kind metadata spec",
    apiVersion={"const": "batch/v1"},
    kind={"const": "Job"},
    metadata=METADATA,
    spec=strict(
        "template",
        completions=COUNT,
        parallelism=COUNT,
        completionMode={"enum": ["Indexed", "NonIndexed"]},
        backoffLimit=COUNT,
        ttlSecondsAfterFinished=COUNT,
        activeDeadlineSeconds=COUNT,
        template=TEMPLATE,
    ),
)
REPLICAS = strict("template", replicas=COUNT, template=TEMPLATE)
MPI_JOB_SCHEMA = strict(
    "apiVersion kind metadata spec",
    apiVersion={"const": "kubeflow.org/v2beta1"},
    kind={"const": "MPIJob"},
    metadata=METADATA,
    spec=strict(
        "mpiReplicaSpecs",
        slotsPerWorker=COUNT,
        mpiImplementation={"enum": ["OpenMPI", "Intel", "MPICH"]},
        runPolicy=strict(
            "",
            cleanPodPolicy={"enum": ["None", "Running", "All"]},
            backoffLimit=COUNT,
            ttlSecondsAfterFinished=COUNT,
            activeDeadlineSeconds=COUNT,
        ),
        mpiReplicaSpecs=strict("Launcher", Launcher=REPLICAS, Worker=REPLICAS),
    ),
)


JOB_SET_SCHEMA = strict(
    "apiVersion kind metadata spec",
    apiVersion={"const": "jobset.x-k8s.io/v1alpha2"},
    kind={"const": "JobSet"},
    metadata=METADATA,
    spec=strict(
        "replicatedJobs",
        network=strict("", enableDNSHostnames=BOOLEAN, subdomain=NAME, publishNotReadyAddresses=BOOLEAN),
        failurePolicy=strict("", maxRestarts=COUNT),
        ttlSecondsAfterFinished=COUNT,
        replicatedJobs={
            "type": "array",
            "minItems": 1,
            "items": strict(
                "name template",
                name=NAME,
                replicas=COUNT,
                template=strict("spec", spec=JOB_SCHEMA["properties"]["spec"]),
            ),
        },
    ),
)
# As a fleet starts its groups: a pod on each of these nodes.
ON_NODES = replace(JOB, kubernetes=KubernetesOptions("image", hosts=("n1", "n2.lab")))
MAKERS = [(indexed_job, JOB_SCHEMA), (mpi_job, MPI_JOB_SCHEMA), (job_set, JOB_SET_SCHEMA)]


@pytest.mark.parametrize(("make", "schema"), MAKERS)
@pytest.mark.parametrize("job", [JOB, replace(PLAIN, kubernetes=KubernetesOptions("image")), ON_NODES])
def test_a_manifest_holds_nothing_that_its_schema_does_not_know(make: Any, schema: Any, job: Any) -> None:
    jsonschema.validate(make(job), schema)


@pytest.mark.parametrize("make", [indexed_job, service])
def test_kubernetes_own_schemas_accept_it(make: Any) -> None:
    validator = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate (100 MB of schemas) is not installed"
    )
    for job in (JOB, ON_NODES):
        validator.validate(make(job), validator.latest_version(), strict=True)


def test_what_is_written_reads_back_as_it_was() -> None:
    yaml = pytest.importorskip("yaml")
    documents = [
        indexed_job(JOB),
        mpi_job(JOB),
        {"odd": [NASTY, "no", "1.0", "", " a", "\u2028\x7f", 1, None, True, [], {}]},
    ]
    assert list(yaml.safe_load_all(to_yaml(documents))) == documents


def test_every_manifest_is_written_and_the_chosen_one_submitted() -> None:
    assert [file.path.name for file in plan(JOB).files] == ["job.yaml", "mpijob.yaml", "jobset.yaml"]
    kinds = [replace(JOB, kubernetes=replace(JOB.kubernetes, kind=kind)) for kind in ("job", "mpijob", "jobset")]
    assert [plan(each).submission.submit[-1] for each in kinds] == [  # type: ignore[union-attr]
        "/runs/one run/job.yaml",
        "/runs/one run/mpijob.yaml",
        "/runs/one run/jobset.yaml",
    ]


def test_a_job_sets_pods_meet_by_the_names_that_its_controller_makes() -> None:
    (group,) = job_set(JOB)["spec"]["replicatedJobs"]
    (container,) = group["template"]["spec"]["template"]["spec"]["containers"]
    values = {each["name"]: each.get("value") for each in container["env"]}
    assert values["BUSBW_ADDRESS"] == f"{JOB.name}-nodes-0-0.{JOB.name}:21000"
    assert values["BUSBW_HOSTS"].split(",")[-1] == f"{JOB.name}-nodes-0-{JOB.nodes - 1}"
    assert group["template"]["spec"]["completions"] == JOB.nodes


def test_kubernetes_gets_no_dollar_to_replace() -> None:
    [container] = indexed_job(JOB)["spec"]["template"]["spec"]["containers"]
    assert {each["name"]: each.get("value") for each in container["env"]}["NCCL_NOTE"] == NASTY.replace("$", "$$")


def test_a_pod_starts_its_ranks_and_fails_where_one_does(tmp_path: Path) -> None:
    program = ["sh", "-c", 'echo "$BUSBW_RANK $BUSBW_LOCAL_RANK $1"; test "$BUSBW_RANK" != "$ILL"', "x", NASTY]
    environ = {**os.environ, "JOB_COMPLETION_INDEX": "1", "BUSBW_LOCAL_SIZE": "2"}
    argv = ["sh", "-c", START, "busbw-ranks", *program]
    for ill, code in (("9", 0), ("2", 1)):
        done = subprocess.run(
            argv, env={**environ, "ILL": ill}, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == code
        assert sorted(line for line in done.stdout.splitlines() if line[0].isdigit()) == [
            f"2 0 {NASTY.splitlines()[0]}",
            f"3 1 {NASTY.splitlines()[0]}",
        ]


def test_a_log_is_divided_into_text_and_record() -> None:
    text, record = divide(b'# head\n   64 {"schema":1,"a":2}\n{"schema":1}\n 1.0\n{"schema":1,"cut')
    assert text == b'# head\n   64 \n 1.0\n{"schema":1,"cut'
    assert record == b'{"schema":1,"a":2}\n{"schema":1}\n'


def conditions(*types: str, reason: str = "") -> Any:
    return {"status": {"conditions": [{"type": each, "status": "True", "reason": reason} for each in types]}}


def test_conditions_say_how_it_ended() -> None:
    assert state_of(conditions("Complete"), "x").exit_code == 0
    assert state_of(conditions("Created", "Succeeded"), "x").phase is Phase.ENDED
    assert state_of(conditions("Failed", reason="DeadlineExceeded"), "x").exit_code == 124
    assert state_of(conditions("Failed", reason="BackoffLimitExceeded"), "x").exit_code == 1
    assert state_of({"status": {"ready": 1}}, "x").phase is Phase.RUNNING
    assert state_of(conditions("Completed"), "x").exit_code == 0, "a JobSet's word"
    groups = {"status": {"replicatedJobsStatus": [{"name": "nodes", "active": 1}]}}
    assert state_of(groups, "x").phase is Phase.RUNNING
    assert state_of({}, "x").phase is Phase.WAITING


def test_pods_say_why_they_wait() -> None:
    waiting = {"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}
    unscheduled = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    assert waiting_reason({"items": [{"status": waiting}]}) == ("ImagePullBackOff", "no message")
    assert waiting_reason({"items": [{"status": unscheduled}]}) == ("Unschedulable", "")
    assert waiting_reason({}) == ("", "")


KUBECTL = """\
import json, pathlib, sys
here = pathlib.Path(__file__).parent
words = [word for word in sys.argv[1:] if not word.startswith("--namespace")]
with (here / "calls").open("a") as calls:
    calls.write(json.dumps([words, sys.stdin.read() if words[0] == "apply" else ""]) + "\\n")
if (here / "broken").exists() and words[0] == "apply" and words[-1] != "-":
    sys.exit("error: the server could not find the requested resource")
if words[:2] == ["get", "job"]:
    asked = (here / "calls").read_text().count('"get", "job"')
    status = {"ready": 1} if asked < 3 else {"conditions": [{"type": "Complete", "status": "True"}]}
    print(json.dumps({"status": status}))
elif words[0] == "logs":
    print("# table")
    print((here / "log").read_text(), end="")
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A folder with a kubectl that answers for a cluster."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    (folder / "kubectl.py").write_text(KUBECTL)
    (folder / "kubectl").write_text(f'#!/bin/sh\nexec {sys.executable} -S {folder}/kubectl.py "$@"\n')
    (folder / "kubectl").chmod(0o755)
    (folder / "log").write_text((EXAMPLES / "all_reduce-v1.jsonl").read_text())
    return folder


def busbw(cluster: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [
        sys.executable,
        "-m",
        "busbw",
        "all_reduce",
        "--launcher",
        "k8s",
        "--launcher-program",
        f"{cluster}/kubectl",
    ]
    environ = {**os.environ, "PYTHONPATH": str(SOURCE), "BUSBW_ENGINE": sys.executable}
    return subprocess.run([*argv, *words], env=environ, capture_output=True, text=True, timeout=60, check=False)


def test_a_job_is_submitted_followed_collected_and_removed(cluster: Path, runs_of_this_test: Path) -> None:
    done = busbw(cluster, "--ranks", "2", "--image", "i")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "# table\n"
    [path] = runs_of_this_test.glob("*/record.jsonl")
    assert read_record(path).cases
    calls = [json.loads(line) for line in (cluster / "calls").read_text().splitlines()]
    assert [call[0][0] for call in calls][:2] == ["apply", "apply"]
    secret = json.loads(calls[0][1])["stringData"]["secret"]
    assert len(secret) == 32
    assert not any(secret in word for call in calls for word in call[0])
    assert not any(secret in file.read_text() for file in path.parent.iterdir())
    assert calls[-1][0][0] == "delete"


def test_a_cluster_that_refuses_is_one_sentence_and_keeps_nothing(cluster: Path, runs_of_this_test: Path) -> None:
    (cluster / "broken").touch()
    done = busbw(cluster, "--ranks", "2", "--image", "i")
    assert done.returncode == 1
    assert done.stderr == "busbw: Kubernetes took no job: the server could not find the requested resource\n"
    assert '"delete"' in (cluster / "calls").read_text().splitlines()[-1]
    assert not list(runs_of_this_test.glob("*"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--ranks", "2"), "--image"),
        (("--ranks", "2", "--image", "i", "--job-name", "A_b"), "small letters"),
        (("--ranks", "2", "--image", "i", "--namespace", "../x"), "small letters"),
        (("--ranks", "2", "--image", "a b"), "holds a blank"),
    ],
)
def test_what_kubernetes_would_refuse_is_one_sentence(words: tuple[str, ...], why: str, cluster: Path) -> None:
    done = busbw(cluster, *words)
    assert done.returncode == 2
    assert why in done.stderr and done.stderr.count("\n") == 1


def test_manifests_need_no_engine_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("BUSBW_ENGINE", "/no/engine")
    words = ["all_reduce", "-b", "8", "--launcher", "k8s", "--ranks", "2", "--image", "i", "--dry-run"]
    assert main(words) == 0
    assert "- busbw-engine" in capsys.readouterr().out
    assert main(["all_reduce", "-b", "8", "--launcher", "sbatch", "--ranks", "2", "--dry-run"]) == 1


def test_a_kubectl_that_cannot_be_started_is_one_sentence() -> None:
    submission = plan(replace(JOB, launcher_program="/no/kubectl")).submission
    assert submission
    with pytest.raises(UserError, match="cannot be started"):
        kubernetes_queue.submit(submission)


def test_a_secret_variable_travels_in_the_jobs_secret_and_stands_in_no_file(
    cluster: Path, runs_of_this_test: Path
) -> None:
    value = "canary-0123456789"
    done = busbw(cluster, "--ranks", "2", "--image", "i", "--env", f"SITE_TOKEN={value}", "--env", "NCCL_DEBUG=INFO")
    assert done.returncode == 0, done.stderr
    calls = [json.loads(line) for line in (cluster / "calls").read_text().splitlines()]
    assert json.loads(calls[0][1])["stringData"]["variable.SITE_TOKEN"] == value
    assert not any(value in word for call in calls for word in call[0])
    [manifest] = runs_of_this_test.glob("*/job.yaml")
    assert "key: variable.SITE_TOKEN" in manifest.read_text() and "NCCL_DEBUG" in manifest.read_text()
    assert not any(value in file.read_text() for file in manifest.parent.iterdir())


def test_a_file_named_for_the_record_gets_it_though_no_pod_can_write_it(cluster: Path, tmp_path: Path) -> None:
    named = tmp_path / "named.jsonl"
    done = busbw(cluster, "--ranks", "2", "--image", "i", "--nodelist", "n1,n2", "--nodes", "2", "--record", str(named))
    assert done.returncode == 0, done.stderr
    assert read_record(named).cases
    done = busbw(cluster, "--ranks", "2", "--image", "i", "--record", "mine.jsonl", "--dry-run")
    assert "/dev/stdout" in done.stdout and "mine.jsonl" not in done.stdout


def test_pods_go_to_the_nodes_that_are_named_one_each(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["all_reduce", "--launcher", "k8s", "--ranks", "2", "--nodes", "2", "--image", "i", "--dry-run"]
    assert main([*words, "--nodelist", "n1,n2.lab"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("key: kubernetes.io/hostname") == 3 and shown.count("- n2.lab") == 3
    assert shown.count("podAntiAffinity") == 2, "but for the MPIJob, whose launcher has the same label"
    for wrong in ("n[1-2]", "n1,", "N1,n2", "n1"):
        assert main([*words, "--nodelist", wrong]) == 2
        assert "--nodelist" in capsys.readouterr().err
