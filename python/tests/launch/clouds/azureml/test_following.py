"""A job of Azure ML from its submission to its end: log, cost, and every way in which it does not come to one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from azure_parts import EXAMPLES, MEASUREMENT, Credential, finishing_as, kept, yes
from stand_in import StandIn

from busbw.base.errors import UserError
from busbw.launch.clouds.azureml import following, steps
from busbw.launch.clouds.azureml.settings import EXAMPLE, Settings

pytest.importorskip("azure.ai.ml", reason="azure-ai-ml is not installed; the extra named azureml has it")
pytest.importorskip("azure.identity", reason="azure-identity is not installed")
pytestmark = [pytest.mark.filterwarnings("ignore")]

from busbw.launch.clouds.azureml.cloud import Cloud  # noqa: E402


def submitted(settings: Settings, cloud: Cloud, azure: StandIn, monkeypatch: pytest.MonkeyPatch) -> str:
    """A job in a workspace that is there; nobody waits between two questions."""
    monkeypatch.setattr(following, "FIRST_PAUSE", 0.01)
    steps.setup(settings, cloud, yes, lambda _: None)
    return steps.submit(settings, cloud, MEASUREMENT, yes, lambda _: None)


def test_a_jobs_log_is_shown_as_it_grows_and_each_line_once(
    settings: Settings, cloud: Cloud, azure: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = submitted(settings, cloud, azure, monkeypatch)
    azure.steps = [
        lambda: finishing_as(azure, name, "Queued"),
        lambda: finishing_as(azure, name, "Running"),
        lambda: azure.add_log("user_logs/std_log_process_00.txt", "# table\n   64"),
        lambda: azure.add_log("user_logs/std_log_process_01.txt", "of another rank\n"),
        lambda: azure.add_log("user_logs/std_log_process_00.txt", "  1.0\n# end\n"),
        lambda: finishing_as(azure, name, "Completed"),
    ]
    azure.history |= {"startTimeUtc": "2026-11-22T10:00:00Z", "endTimeUtc": "2026-11-22T10:10:00Z"}
    said: list[str] = []
    shown: list[str] = []
    ended = following.follow(cloud, name, following.Limits(900), said.append, shown.append)
    assert "".join(shown) == "# table\n   64  1.0\n# end\n"
    assert any(each != "bytes=0-" for each in azure.ranges), "the whole log was fetched again and again"
    assert (ended.code, ended.nodes, ended.seconds) == (0, 2, 600.0)
    assert [each for each in said if "sig=" in each] == []


def test_a_failed_job_says_why(
    settings: Settings, cloud: Cloud, azure: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = submitted(settings, cloud, azure, monkeypatch)
    finishing_as(azure, name, "Failed")
    azure.history["error"] = {"error": {"code": "UserError", "message": "Process 3 ended with 139\x1b[31m\nmore"}}
    said: list[str] = []
    assert following.follow(cloud, name, following.Limits(900), said.append).code == 1
    assert said == [f"job {name} ended as Failed (Process 3 ended with 139[31m); what was measured until then is kept"]


def without_nodes(azure: StandIn, code: str, message: str, have: int = 1) -> None:
    compute = kept(azure, "/computes/ndv4")["properties"]["properties"]
    compute |= {
        "currentNodeCount": have,
        "targetNodeCount": 2,
        "errors": [{"error": {"code": code, "message": message}}],
    }


def test_a_quota_ends_the_wait_at_once_and_nothing_is_left_running(
    settings: Settings, cloud: Cloud, azure: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = submitted(settings, cloud, azure, monkeypatch)
    finishing_as(azure, name, "Queued")
    without_nodes(azure, "ClusterCoreQuotaReached", "the quota for this family of machines is reached", have=0)
    with pytest.raises(
        UserError,
        match=r"cannot start: the cluster ndv4 has 0 of 2 nodes \(ClusterCoreQuotaReached: .*ask Azure for more quota",
    ):
        following.follow(cloud, name, following.Limits(900, 600), lambda _: None)
    assert kept(azure, f"/jobs/{name}")["properties"]["status"] == "Canceled"


def test_a_job_that_gets_a_part_of_its_nodes_is_cancelled_after_its_time_to_start(
    settings: Settings, cloud: Cloud, azure: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = submitted(settings, cloud, azure, monkeypatch)
    finishing_as(azure, name, "Queued")
    without_nodes(azure, "AllocationFailed", "there is no capacity now")
    said: list[str] = []
    with pytest.raises(UserError, match=r"did not start within 0.2 s: the cluster ndv4 has 1 of 2 nodes .*no capacity"):
        following.follow(cloud, name, following.Limits(900, 0.2), said.append)
    assert kept(azure, f"/jobs/{name}")["properties"]["status"] == "Canceled"
    told = f"job {name}: Queued; the cluster ndv4 has 1 of 2 nodes (AllocationFailed: there is no capacity now)"
    assert said.count(told) == 1


def test_a_running_job_is_not_cancelled_for_its_time_to_start(
    settings: Settings, cloud: Cloud, azure: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = submitted(settings, cloud, azure, monkeypatch)
    finishing_as(azure, name, "Running")
    azure.steps = [lambda: None] * 4 + [lambda: finishing_as(azure, name, "Completed")]
    assert following.follow(cloud, name, following.Limits(900, 0.0), lambda _: None).code == 0


def test_a_quota_in_setup_says_what_was_made_and_how_it_goes(settings: Settings, cloud: Cloud, azure: StandIn) -> None:
    azure.refuse["/computes/"] = (400, "Operation results in exceeding quota limits of vCPUs")
    with pytest.raises(
        UserError, match=r"compute cluster ndv4 could not be made: .*exceeding quota.*ask Azure for more"
    ):
        steps.setup(settings, cloud, yes, lambda _: None)
    with pytest.raises(UserError, match="nothing was made"):
        steps.setup(settings, cloud, yes, lambda _: None)
    assert not [path for path in azure.there if "/computes/" in path]


@pytest.fixture
def walk(settings: Settings, azure: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """`busbw azureml` as a user calls it, with the credential of the test."""
    from busbw.cli.main import main
    from busbw.launch.clouds.azureml import cloud as module

    monkeypatch.setattr(module, "_credential", Credential)
    monkeypatch.setattr(following, "FIRST_PAUSE", 0.01)
    monkeypatch.setenv("BUSBW_RUNS", str(tmp_path / "runs"))
    (tmp_path / "names.toml").write_text(EXAMPLE)
    return lambda step, *words: main(["azureml", step, "--config", str(tmp_path / "names.toml"), *words])


MEASURED = ("--yes", "--wait", "--time-limit", "20m", "--price", "30 EUR", "all_reduce", "-b", "8")


def left(azure: StandIn, monkeypatch: pytest.MonkeyPatch, text: str = "") -> None:
    """What a job's storage holds; the storage itself is no part of the stand-in."""

    def download(_self: Cloud, _name: str, folder: Path) -> list[Path]:
        for name, content in (("std_log_process_0.txt", "# a table\nno NCCL\x1b[31m\n"), ("record.jsonl", text)):
            (folder / name).write_text(content)
        return sorted(folder.iterdir())

    monkeypatch.setattr(Cloud, "download", download)


def test_the_whole_walk_from_setup_to_teardown(
    walk: Callable[..., int],
    azure: StandIn,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    left(azure, monkeypatch, (EXAMPLES / "all_reduce-v1.jsonl").read_text())
    azure.history |= {"startTimeUtc": "2026-11-22T10:00:00Z", "endTimeUtc": "2026-11-22T10:10:00Z"}
    assert walk("setup", "--yes") == 0
    azure.add_log("user_logs/std_log_process_0.txt", "# the table of rank 0\x1b]0;\n")
    capsys.readouterr()
    assert walk("submit", *MEASURED) == 0
    out, err = capsys.readouterr()
    name = out.splitlines()[0]
    assert out == f"{name}\n# the table of rank 0]0;\n"
    assert "60.00 EUR an hour" in err and "at most 22.00 EUR" in err
    assert "the job ran 10.0 min on 2 nodes: 10.00 EUR" in err
    [record] = (tmp_path / "runs").glob(f"azureml-{name}/record.jsonl")
    from busbw.cli.main import main

    assert main(["runs"]) == 0 and "all_reduce" in capsys.readouterr().out
    assert walk("collect", name) == 1 and "has been collected" in capsys.readouterr().err
    assert walk("teardown", "--everything", "--yes") == 0
    assert not azure.there and record.exists()


def test_a_job_that_left_no_record_shows_the_end_of_its_log(
    walk: Callable[..., int], azure: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left(azure, monkeypatch)
    assert walk("setup", "--yes") == 0
    azure.steps = [
        lambda: [each["properties"].update(status="Failed") for path, each in azure.there.items() if "/jobs/" in path]
    ]
    assert walk("submit", *MEASURED) == 1
    err = capsys.readouterr().err
    assert "did not come to measuring; the end of its log:\n  # a table\n  no NCCL[31m" in err


@pytest.mark.parametrize("what", ["signal", "login"])
def test_a_wait_that_ends_early_leaves_nothing_running_or_says_so(
    what: str,
    walk: Callable[..., int],
    azure: StandIn,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert walk("setup", "--yes") == 0
    jobs = lambda: [each for path, each in azure.there.items() if "/jobs/" in path]  # noqa: E731

    def happens() -> None:
        jobs()[0]["properties"]["status"] = "Running"
        if what == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            azure.refuse_reads = True

    azure.steps = [happens]
    code = walk("submit", *MEASURED)
    azure.refuse_reads = False
    err = capsys.readouterr().err
    if what == "signal":
        assert code == 130 and "cancelling job" in err
        assert jobs()[0]["properties"]["status"] == "Canceled"
    else:
        name = jobs()[0]["name"]
        assert code == 1 and "run `az login`" in err and f"`busbw azureml cancel {name}` ends it" in err
        assert walk("cancel", name) == 0 and jobs()[0]["properties"]["status"] == "Canceled"
