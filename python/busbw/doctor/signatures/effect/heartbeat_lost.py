"""A coordination service no longer hears a task: it ended or hangs, and says itself why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """With the tasks that are silent."""
    tasks = sorted({int(each["task"]) for each in groups if "task" in each})
    who = f"task {', '.join(map(str, tasks[:8]))}" if tasks else "a task"
    return (
        f"the coordination service (JAX, TensorFlow) no longer hears {who}: it ended or hangs, and its own log says why"
    )


SIGNATURE = Signature(
    name="heartbeat-lost",
    stage=Stage.EFFECT,
    title="the coordination service (JAX, TensorFlow) no longer hears a task: it ended or hangs",
    patterns=(
        r"(?:tasks? (?:is|are) unhealthy \()?stopped sending heartbeats(?:.{0,120}?/task:(?P<task>\d{1,7}))?",
        r"task\S{0,60} heartbeat timeout(?:.{0,200}?/task:(?P<task>\d{1,7}))?",
        r"/task:(?P<task>\d{1,7}) has been set to ERROR in coordination service",
        r"cluster check alive failed, /job:\S{0,60}/task:(?P<task>\d{1,7}) is down",
    ),
    explains=("xla-error", "python-exception"),
    confirm="the log of each task that is named, from its end; ping its host; py-spy dump --pid PID where it runs",
    cure=(
        "read the end of the named task's own log (exception, out of memory, Xid in dmesg) and mend that; where its "
        "host is gone, leave it out. Raise jax.distributed.initialize(heartbeat_timeout_seconds=...) only for tasks "
        "that are busy in their own code"
    ),
    source="XLA xla/tsl/distributed_runtime/coordination/coordination_service.cc",
    tell=tell,
)
"""Of any fault beside it this is an effect: a task is silent because of something."""
