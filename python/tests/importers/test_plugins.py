"""What a plugin says in a log that it sets is in the record, with the plugin as its source, and compare shows it."""

from __future__ import annotations

import io

from busbw.analysis.differences import find_differences
from busbw.importers import import_stream
from busbw.records import ConfSetting, Record

HEAD = "ip-10-0-0-1:2017:2031 [0] NCCL INFO "
ROW = " 1048576  262144  float  sum  -1  120.0  8.74  16.38  0  119.0  8.81  16.52  0\n"


def record(*messages: str) -> Record:
    records: list[Record] = []
    text = "# nThread 1 nGpus 8\n" + "".join(f"{HEAD}{each}\n" for each in messages) + ROW
    import_stream(
        io.BytesIO(text.encode()), "job.log", lambda sweep: records.append(sweep.record()), collective="all_reduce"
    )
    (found,) = records
    return found


def test_a_plugins_settings_are_recorded_and_compared() -> None:
    own = "NET/OFI Running on p5.48xlarge platform, topology file /opt/p5.xml"
    first = record('NET/OFI Setting NCCL_PROTO to "simple"', own, "NCCL_PROTO set by environment to simple")
    second = record("NCCL_PROTO set by environment to LL128", own, "NET/OFI Adding NCCL_API_KEY=otter to environment")
    assert first.run.conf[0] == ConfSetting("NCCL_PROTO", "simple", "NET/OFI", in_force=True)
    assert [each.name for each in second.run.conf] == ["NCCL_TOPO_FILE"]
    assert [(each.what, each.values) for each in find_differences([first, second])] == [
        ("NCCL_PROTO", ("simple (NET/OFI)", "LL128"))
    ]


def test_a_tuner_that_chooses_is_a_difference() -> None:
    tuned = record("TUNER/Plugin: Using nccl_ofi_tuner (v3)", "NET/OFI Region base Tuner is chosen for platform: p5")
    assert [(each.what, each.values[0]) for each in find_differences([tuned, record()])] == [
        ("tuner", "nccl_ofi_tuner (v3) (TUNER/Plugin)"),
        ("tuner's table", "Region (NET/OFI)"),
    ]


def test_the_network_that_nccl_used_is_a_difference() -> None:
    one, two = (
        record("Using network IB"),
        record("NET/Plugin: Loaded net plugin Libfabric (v9)", "Using network Libfabric"),
    )
    assert [(each.what, each.values) for each in find_differences([one, two])] == [
        ("network", ("IB", "Libfabric")),
        ("network plugin", ("-", "Libfabric (v9)")),
    ]
