"""NCCL_IB_HCA names RDMA devices, and the job took sockets: no device of that name is here."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Severity
from busbw.doctor.remedy import evidence, without
from busbw.doctor.signature import Stage

NAME = "hca-not-found"


def examine(facts: Facts) -> Iterator[Finding]:
    setting = facts.settings.get("NCCL_IB_HCA")
    if setting is None or not setting.value.strip() or facts.whole("NCCL_IB_DISABLE") == 1:
        return
    said = [(log.source, said) for log in facts.logs for said in log.networks.values() if "socket" in said.text.lower()]
    if not said:
        return
    yield Finding(
        NAME,
        Severity.NOTE if facts.ran_on_one_node else Severity.WARNING,
        f"NCCL_IB_HCA={setting.value} names RDMA devices, and ranks use sockets: none of that name is found there",
        (evidence(setting), *(Evidence(each.text, source, each.line) for source, each in said[:3])),
        Cost("between nodes everything goes through sockets: often 5 to 20 times less, and no GPU Direct"),
        "compare the names with `ibv_devices` on every host and in its container (a leading = asks for the whole name, "
        "^ leaves devices out), give the container /dev/infiniband, or unset NCCL_IB_HCA",
        without(setting),
        stage=Stage.SETTING,
    )
