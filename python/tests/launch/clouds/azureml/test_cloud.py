"""The real SDK builds, checks and sends every resource and the job; a stand-in of Azure's API on loopback answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from azure_parts import EXAMPLES, MEASUREMENT, finishing_as, kept, no, yes
from stand_in import TOKEN, StandIn

from busbw.base.errors import UserError
from busbw.launch.clouds.azureml import following, steps
from busbw.launch.clouds.azureml.documents import Measurement
from busbw.launch.clouds.azureml.settings import Settings

pytest.importorskip("azure.ai.ml", reason="azure-ai-ml is not installed; the extra named azureml has it")
pytest.importorskip("azure.identity", reason="azure-identity is not installed")
pytestmark = [pytest.mark.filterwarnings("ignore")]

from busbw.launch.clouds.azureml.cloud import Cloud  # noqa: E402


def test_setup_makes_what_is_missing_and_a_second_one_makes_nothing(
    settings: Settings, cloud: Cloud, azure: StandIn
) -> None:
    said: list[str] = []
    steps.setup(settings, cloud, yes, said.append)
    assert [line.split(" ", 1)[1] for line in said if line.startswith("making")] == [
        "resource group busbw",
        "workspace busbw",
        "compute cluster ndv4",
        "environment busbw",
    ]
    assert any("2 x Standard_ND96asr_v4" in line for line in said)
    compute = kept(azure, "/computes/ndv4")["properties"]
    assert compute["computeType"] == "AmlCompute"
    assert compute["properties"]["vmSize"] == "Standard_ND96asr_v4"
    assert compute["properties"]["scaleSettings"]["maxNodeCount"] == 2
    assert compute["properties"]["scaleSettings"]["minNodeCount"] == 0
    assert compute["properties"]["scaleSettings"]["nodeIdleTimeBeforeScaleDown"] == "PT2M"
    assert kept(azure, "/computes/ndv4")["identity"]["type"] == "SystemAssigned"
    assert kept(azure, "/environments/busbw/versions/1")["properties"]["image"] == settings.environment.image
    azure.asked.clear()
    steps.setup(settings, cloud, no, said.append)
    assert not azure.paths("PUT") and not azure.paths("POST")


@pytest.mark.parametrize("identity", ["system_assigned", "none", "/subscriptions/s/resourceGroups/g/providers/x/me"])
def test_the_nodes_have_the_identity_that_was_named(
    identity: str, settings: Settings, azure: StandIn, cloud: Cloud
) -> None:
    named = replace(settings, cluster=replace(settings.cluster, identity=identity))
    steps.setup(named, cloud, yes, lambda _: None)
    found = kept(azure, "/computes/ndv4").get("identity") or {}
    kinds = {"system_assigned": "SystemAssigned", "none": None}
    assert found.get("type") == kinds.get(identity, "UserAssigned")
    assert list(found.get("userAssignedIdentities") or {}) == ([identity] if identity.startswith("/") else [])


def test_nothing_is_made_where_the_answer_is_no(settings: Settings, cloud: Cloud, azure: StandIn) -> None:
    with pytest.raises(UserError, match="nothing was made"):
        steps.setup(settings, cloud, no, print)
    with pytest.raises(UserError, match="no job was submitted"):
        steps.submit(settings, cloud, MEASUREMENT, no, print)
    assert not azure.there


@pytest.mark.parametrize(("distribution", "kind"), [("mpi", "Mpi"), ("pytorch", "PyTorch")])
def test_the_job_that_arrives_is_the_one_that_was_described(
    distribution: str, kind: str, settings: Settings, cloud: Cloud, azure: StandIn
) -> None:
    measurement = Measurement(MEASUREMENT.arguments, 2, 8, distribution, {"NCCL_DEBUG": "INFO"}, 1200, "run-1")
    name = steps.submit(settings, cloud, measurement, yes, print)
    sent = kept(azure, f"/jobs/{name}")["properties"]
    assert sent["jobType"] == "Command"
    assert sent["distribution"] == {"distributionType": kind, "processCountPerInstance": 8}
    assert sent["resources"]["instanceCount"] == 2
    assert sent["limits"]["timeout"] == "PT20M"
    assert sent["environmentVariables"] == {"NCCL_DEBUG": "INFO", "BUSBW_RUN_ID": "run-1"}
    assert sent["command"].endswith("exec busbw-engine all_reduce -b 8 'it'\"'\"'s' --record outputs/record.jsonl")
    assert sent["computeId"].endswith("/computes/ndv4") and sent["environmentId"].endswith("/busbw/versions/1")


def test_the_job_of_a_fleet_has_one_busbw_on_each_node(settings: Settings, cloud: Cloud, azure: StandIn) -> None:
    measurement = Measurement(("fleet", "run", "f.jsonl"), 2, 1)
    sent = kept(azure, f"/jobs/{steps.submit(settings, cloud, measurement, yes, print)}")["properties"]
    assert sent["distribution"] == {"distributionType": "Mpi", "processCountPerInstance": 1}
    assert "busbw fleet run f.jsonl" in sent["command"]


def test_a_document_that_the_schema_does_not_know_is_one_sentence(cloud: Cloud) -> None:
    with pytest.raises(UserError, match=r"the job's document is refused: .*instance_count: Not a valid integer"):
        cloud.check(
            {"type": "command", "command": "x", "compute": "azureml:c", "resources": {"instance_count": "many"}}
        )


@pytest.mark.parametrize(("status", "code"), [("Completed", 0), ("Failed", 1), ("Canceled", 130)])
def test_a_job_is_followed_to_its_end(status: str, code: int, settings: Settings, cloud: Cloud, azure: StandIn) -> None:
    name = steps.submit(settings, cloud, MEASUREMENT, yes, print)
    finishing_as(azure, name, status)
    assert following.follow(cloud, name, following.Limits(900), print).code == code


def test_a_job_that_does_not_end_is_not_waited_for_without_end(
    settings: Settings, cloud: Cloud, azure: StandIn
) -> None:
    name = steps.submit(settings, cloud, MEASUREMENT, yes, print)
    finishing_as(azure, name, "Running")
    with pytest.raises(UserError, match="is still Running after 1 s"):
        following.follow(cloud, name, following.Limits(1), print)


class Downloaded:
    """A cloud whose job left these files; the storage behind the real one is no part of the stand-in."""

    def __init__(self, write: Callable[[Path], None]) -> None:
        self._write = write

    def download(self, _name: str, folder: Path) -> list[Path]:
        self._write(folder)
        return sorted(path for path in folder.rglob("*") if path.is_file())


def test_the_record_is_found_among_what_a_job_left(tmp_path: Path) -> None:
    example = (EXAMPLES / "all_reduce-v1.jsonl").read_text()

    def write(folder: Path) -> None:
        for name, text in (("artifacts/outputs/record.jsonl", example), ("artifacts/user_logs/std_log.txt", "x")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

    target = tmp_path / "runs" / "one" / "record.jsonl"
    steps.collect(Downloaded(write), "j", target, tmp_path / "scratch")  # type: ignore[arg-type]
    assert target.read_text() == example
    with pytest.raises(UserError, match=r"job j left no outputs/record.jsonl"):
        steps.collect(Downloaded(lambda _: None), "j", target, tmp_path / "empty")  # type: ignore[arg-type]


def test_a_fleets_results_and_its_page_are_found_too(tmp_path: Path) -> None:
    def write(folder: Path) -> None:
        for name, text in (("f.jsonl", '{"busbw_fleet": 1}\n'), ("page.html", "<html>"), ("../user_logs/std.txt", "x")):
            path = folder / "artifacts" / "outputs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    target = tmp_path / "runs" / "one" / "record.jsonl"
    (tmp_path / "scratch" / "artifacts" / "outputs").mkdir(parents=True)
    found = steps.collect(Downloaded(write), "j", target, tmp_path / "scratch")  # type: ignore[arg-type]
    assert found.read_text() == '{"busbw_fleet": 1}\n'
    assert {path.name for path in target.parent.iterdir()} == {"f.jsonl", "page.html"}


def test_teardown_deletes_the_cluster_and_all_only_where_told(settings: Settings, cloud: Cloud, azure: StandIn) -> None:
    steps.setup(settings, cloud, yes, print)
    steps.teardown(settings, cloud, yes, print, everything=False)
    assert not [path for path in azure.there if "/computes/" in path]
    assert [path for path in azure.there if path.endswith("/workspaces/busbw")]
    steps.teardown(settings, cloud, yes, print, everything=True)
    assert not azure.there


def test_what_somebody_else_made_stays(settings: Settings, cloud: Cloud, azure: StandIn) -> None:
    steps.setup(settings, cloud, yes, print)
    for found in azure.there.values():
        found["tags"] = {"made-by": "somebody"}
    said: list[str] = []
    steps.teardown(settings, cloud, yes, said.append, everything=True)
    assert not azure.paths("DELETE")
    assert "resource group busbw was not made by busbw and stays" in said


def test_what_azure_refuses_is_one_sentence_without_a_token(settings: Settings, cloud: Cloud, azure: StandIn) -> None:
    azure.refuse["/jobs/"] = (403, "the quota of ND96 is used up")
    with pytest.raises(UserError, match=r"Azure ML took no job: .*quota") as caught:
        steps.submit(settings, cloud, MEASUREMENT, yes, print)
    assert TOKEN not in str(caught.value) and "\n" not in str(caught.value)


def test_a_credential_that_azure_does_not_know_is_one_sentence(settings: Settings, azure: StandIn) -> None:
    class Nobody:
        def get_token(self, *_: str, **__: object) -> Any:
            from azure.core.exceptions import ClientAuthenticationError

            raise ClientAuthenticationError("DefaultAzureCredential failed: " + "a long story\n" * 9)

    with pytest.raises(UserError, match="Azure knows nobody here") as caught:
        steps.submit(settings, Cloud(settings, Nobody()), MEASUREMENT, yes, print)
    assert "long story" not in str(caught.value)
