"""The steps of a measurement on Azure ML over a cloud that tests replace: setup, submit, collect, teardown."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.base.errors import UserError
from busbw.base.secrets import hide, shortened
from busbw.launch.clouds.azureml.documents import RECORD, Measurement, Resource, job, resources
from busbw.launch.clouds.azureml.prices import before
from busbw.launch.yaml_text import to_yaml

if TYPE_CHECKING:
    from busbw.launch.clouds.azureml.cloud import Cloud
    from busbw.launch.clouds.azureml.settings import Settings

Say = Callable[[str], None]
Ask = Callable[[str], bool]
FLEET_HEAD = b'{"busbw_fleet"'
LOG_LINES = 12  # of the end of a job's log, shown where it left no record


def shown(settings: Settings, measurement: Measurement | None) -> Iterator[str]:
    """What --dry-run prints: each resource and its price's nature, then the job."""
    azure = settings.azure
    yield f"# subscription {azure.subscription}, resource group {azure.resource_group}"
    if measurement is None:
        for each in resources(settings):
            yield f"# {each.kind} {each.name}" + (f"  (costs: {each.costs})" if each.costs else "")
            yield hide(to_yaml([each.document]))
    else:
        yield f"# job on {measurement.nodes} nodes, {measurement.nodes * measurement.ranks_per_node} ranks"
        yield f"# {cost(settings, measurement)}"
        yield hide(to_yaml([job(settings, measurement)]))


def cost(settings: Settings, measurement: Measurement) -> str:
    """What a job may cost."""
    cluster = settings.cluster
    return before(settings.price, measurement.nodes, cluster.vm_size, measurement.time_limit, cluster.idle_seconds)


def shown_cancel(settings: Settings, name: str) -> Iterator[str]:
    """What --dry-run prints of a cancel."""
    azure = settings.azure
    yield f"# subscription {azure.subscription}, resource group {azure.resource_group}, workspace {azure.workspace}"
    yield f"cancel job {name}; the cluster {settings.cluster.name} and what the job has written stay"


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
    yield f"follow the log of job {name} until it has ended"
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
        try:
            cloud.create(each)
        except UserError as problem:
            made = ", ".join(f"{done.kind} {done.name}" for done in missing[: missing.index(each)])
            left = (
                f"; {made} stay: `busbw azureml teardown --everything` deletes them" if made else "; nothing was made"
            )
            raise UserError(f"{problem}{left}") from None


def submit(settings: Settings, cloud: Cloud, measurement: Measurement, ask: Ask, say: Say) -> str:
    """The name of the job, which starts nodes that cost money."""
    document = job(settings, measurement)
    cloud.check(document)
    say(cost(settings, measurement))
    if not ask(f"Start {measurement.nodes} x {settings.cluster.vm_size}?"):
        raise UserError("no job was submitted")
    name, url = cloud.submit(document)
    say(f"job {name} is submitted{f', see {url}' if url else ''}; `busbw azureml collect {name}` fetches its record")
    return name


def collect(cloud: Cloud, name: str, target: Path, folder: Path) -> Path:
    """Fetch the job's record to `target`, or a fleet's results beside it; `folder` takes everything for a while."""
    files = cloud.download(name, folder)
    wanted = Path(RECORD).name
    records = [path for path in files if path.name == wanted and path.stat().st_size > 0]
    if not records and (fleet := next(filter(_is_fleet, files), None)):
        target.parent.mkdir(parents=True, exist_ok=True)
        for path in fleet.parent.iterdir():  # its page and the like, too
            if path.is_file() and not path.is_symlink():
                shutil.copyfile(path, target.with_name(path.name))
        return target.with_name(fleet.name)
    if not records:
        last = log_end(files)
        shown_end = f"the end of its log:\n{last}" if last else "its logs are in the studio"
        raise UserError(f"job {name} left no {RECORD}: it did not come to measuring; {shown_end}")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(records[0], target)
    return target


def _is_fleet(path: Path) -> bool:
    """Whether a file has the results of `busbw fleet run`."""
    with path.open("rb") as file:
        return file.read(len(FLEET_HEAD)) == FLEET_HEAD


def log_end(files: Sequence[Path]) -> str:
    """The last lines of the log of process 0, without what a terminal would obey."""
    logs = sorted(path for path in files if path.name.startswith("std_log"))
    if not logs:
        return ""
    with logs[0].open("rb") as stream:
        stream.seek(max(0, logs[0].stat().st_size - (64 << 10)))
        lines = stream.read().decode(errors="replace").splitlines()[-LOG_LINES:]
    return "\n".join("  " + shortened("".join(each for each in line if each.isprintable()), 300) for line in lines)


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
