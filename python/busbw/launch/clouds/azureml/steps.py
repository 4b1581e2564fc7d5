"""The steps of a measurement on Azure ML over a cloud that tests replace: setup, submit, collect, teardown."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.base.errors import UserError
from busbw.launch.clouds.azureml.documents import RECORD, Measurement, Resource, job, resources
from busbw.launch.yaml_text import to_yaml

if TYPE_CHECKING:
    from busbw.launch.clouds.azureml.cloud import Cloud
    from busbw.launch.clouds.azureml.settings import Settings

Say = Callable[[str], None]
Ask = Callable[[str], bool]
LONGEST_PAUSE = 30.0  # seconds between two questions about a job's state


def shown(settings: Settings, measurement: Measurement | None) -> Iterator[str]:
    """What --dry-run prints: each resource and its price's nature, then the job."""
    azure = settings.azure
    yield f"# subscription {azure.subscription}, resource group {azure.resource_group}"
    if measurement is None:
        for each in resources(settings):
            yield f"# {each.kind} {each.name}" + (f"  (costs: {each.costs})" if each.costs else "")
            yield to_yaml([each.document])
    else:
        yield f"# job on {measurement.nodes} nodes, {measurement.nodes * measurement.ranks_per_node} ranks"
        yield to_yaml([job(settings, measurement)])


def shown_teardown(settings: Settings, *, everything: bool) -> Iterator[str]:
    """What --dry-run prints of a teardown: what it would delete, in its order, and what stays."""
    azure = settings.azure
    yield f"# subscription {azure.subscription}, resource group {azure.resource_group}"
    for each in reversed(resources(settings)):
        if each.kind in _kinds(everything=everything):
            yield f"delete {each.kind} {each.name}, where it is there and its tags say that busbw made it"
        elif not everything:
            yield f"keep {each.kind} {each.name}" + (f"  (costs: {each.costs})" if each.costs else "")


def shown_collect(settings: Settings, name: str, target: Path) -> Iterator[str]:
    """What --dry-run prints of a collect."""
    azure = settings.azure
    yield f"# subscription {azure.subscription}, resource group {azure.resource_group}, workspace {azure.workspace}"
    yield f"wait until job {name} has ended"
    yield f"fetch its files into a folder of their own, and {RECORD} of them to {target}"
    yield "delete the other files that were fetched"


def _kinds(*, everything: bool) -> set[str]:
    return {"compute cluster"} | ({"workspace", "resource group"} if everything else set())


def setup(settings: Settings, cloud: Cloud, ask: Ask, say: Say) -> None:
    """Make what is not there, once it is known what costs money."""
    missing: list[Resource] = []
    for each in resources(settings):
        # Inside a group or a workspace that is not there is nothing.
        outer_missing = bool(missing) and missing[0].kind in {"resource group", "workspace"}
        if outer_missing or not cloud.exists(each):
            missing.append(each)
        else:
            say(f"{each.kind} {each.name} is there")
    priced = [each for each in missing if each.costs]
    for each in priced:
        say(f"{each.kind} {each.name} costs money: {each.costs}")
    if priced and not ask("Make them?"):
        raise UserError("nothing was made")
    for each in missing:
        say(f"making {each.kind} {each.name}")
        cloud.create(each)


def submit(settings: Settings, cloud: Cloud, measurement: Measurement, ask: Ask, say: Say) -> str:
    """The name of the job, which starts nodes that cost money."""
    document = job(settings, measurement)
    cloud.check(document)
    if not ask(f"Start {measurement.nodes} x {settings.cluster.vm_size}?"):
        raise UserError("no job was submitted")
    name, url = cloud.submit(document)
    say(f"job {name} is submitted{f', see {url}' if url else ''}; `busbw azureml collect {name}` fetches its record")
    return name


def wait(cloud: Cloud, name: str, finished: dict[str, int], limit: float, say: Say) -> int:
    """Exit code of the job once it has ended."""
    pause, said, end = 2.0, "", time.monotonic() + limit
    while True:
        status = cloud.status(name)
        if status in finished:
            if status != "Completed":
                say(f"job {name} ended as {status}; what was measured until then is kept")
            return finished[status]
        if status != said:
            said = status
            say(f"job {name}: {status}")
        if time.monotonic() + pause > end:
            raise UserError(
                f"job {name} is still {status} after {limit:g} s; collect it later, or cancel it in the studio"
            )
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)


def collect(cloud: Cloud, name: str, target: Path, folder: Path) -> None:
    """Fetch the job's record to `target`; `folder` takes everything else for a while."""
    files = cloud.download(name, folder)
    wanted = Path(RECORD).name
    records = [path for path in files if path.name == wanted and path.stat().st_size > 0]
    if not records:
        raise UserError(
            f"job {name} left no {RECORD}: it did not come to measuring; its logs are in the studio, "
            f"and {len(files)} other files were there"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(records[0], target)


def teardown(settings: Settings, cloud: Cloud, ask: Ask, say: Say, *, everything: bool) -> None:
    """Delete what busbw made: the cluster, or all of it."""
    kinds = _kinds(everything=everything)
    there = [each for each in reversed(resources(settings)) if each.kind in kinds and _there(cloud, each, say)]
    if not there:
        say("nothing of busbw's is there")
        return
    names = ", ".join(f"{each.kind} {each.name}" for each in there)
    if not ask(f"Delete {names}, with everything in them?"):
        raise UserError("nothing was deleted")
    for each in there:
        say(f"deleting {each.kind} {each.name}")
        cloud.delete(each)


def _there(cloud: Cloud, resource: Resource, say: Say) -> bool:
    if not cloud.exists(resource):
        return False
    if not cloud.is_ours(resource):
        say(f"{resource.kind} {resource.name} was not made by busbw and stays")
        return False
    return True
