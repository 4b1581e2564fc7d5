"""History finds where a series moved, says what differed there, and is quiet where nothing did."""

from __future__ import annotations

import json
import random
import re
import socket
import sys
import threading
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from busbw.analysis.changes import changes
from busbw.cli.main import main
from busbw.records import Case, End, Library, Rank, Record, Run, Tool
from busbw.runs import store
from busbw.runs.index import Index


def noisy(levels: list[tuple[int, float]], seed: int, noise: float = 0.02) -> list[float]:
    rng = random.Random(seed)
    return [level * rng.gauss(1, noise) for count, level in levels for _ in range(count)]


def test_a_step_is_found_where_it_is() -> None:
    found = [changes(noisy([(20, 100.0), (15, 110.0)], seed)) for seed in range(50)]
    assert all(len(each) == 1 for each in found)
    assert sum(abs(each[0].at - 20) <= 1 for each in found) >= 45
    assert all(abs(each[0].ratio - 1.1) < 0.03 for each in found)


def test_two_steps_are_both_found() -> None:
    found = [changes(noisy([(20, 100.0), (20, 120.0), (20, 100.0)], seed)) for seed in range(20)]
    assert all([round(change.ratio, 1) for change in each] == [1.2, 0.8] for each in found)


def test_noise_alone_is_seldom_a_change() -> None:
    # One in a hundred is allowed without any margin, and bounds are conservative.
    assert sum(bool(changes(noisy([(40, 100.0)], seed), 0.0)) for seed in range(300)) <= 6
    assert sum(bool(changes(noisy([(40, 100.0)], seed))) for seed in range(300)) <= 6


def test_few_or_equal_values_have_no_change() -> None:
    assert changes([]) == changes([1.0]) == changes([1.0] * 50) == changes([1.0, 1.0, 2.0, 2.0]) == []


def keep(folder: Path, number: int, time_us: float, version: str, *, again: float = 1.5, **environment: str) -> None:
    """A run that measured each size twice, the second time `again` times as long."""
    name = f"run{number:04d}"
    started = f"2026-{1 + number // 28:02d}-{1 + number % 28:02d}T04:00:00Z"
    run = Run(
        name, started, Tool("busbw", "1"), Library("NCCL", version=version), machine="ndv5", environment=environment
    )
    cases = [
        Case(name, i, "all_reduce", size, placement, "measured", time_us * size / (1 << 30), type="float", ranks=8)
        for i, (size, placement) in enumerate((s, p) for s in (1 << 20, 1 << 30) for p in ("out_of_place", "in_place"))
    ]
    cases += [replace(each, time_us=(each.time_us or 0) * again) for each in cases]
    store.add(Record(run, tuple(cases), End(name, "completed", len(cases))), folder)


@pytest.fixture
def slower(tmp_path: Path) -> Path:
    rng = random.Random(1)
    for number in range(24):
        late = number >= 12
        keep(tmp_path, number, (4400.0 if late else 4000.0) * rng.gauss(1, 0.005), "2.28.9" if late else "2.27.3",
             **({"NCCL_ALGO": "Ring"} if late else {}))  # fmt: skip
    return tmp_path


def test_what_differed_is_named_and_ci_is_told(slower: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--runs", str(slower)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "ndv5, all_reduce, float, 8 ranks, large (1 GiB): 24 runs since 2026-01-01" in lines[2]
    assert "% slower from run run0012 on: library NCCL 2.27.3 -> NCCL 2.28.9; NCCL_ALGO unset -> Ring" in lines[3]
    assert len(lines) == 4
    assert main(["history", "--runs", str(slower), "--margin", "20"]) == 0


def test_it_is_exported(slower: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["history", "--runs", str(slower), "--export", "prometheus"])
    text = capsys.readouterr().out
    assert (
        'busbw_time_seconds{machine="ndv5",collective="all_reduce",type="float",ranks="8",bytes="1073741824"} 0.004'
        in text
    )
    main(["history", "--runs", str(slower), "--export", "otlp"])
    (metric,) = json.loads(capsys.readouterr().out)["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    points = metric["gauge"]["dataPoints"]
    assert len(points) == 48 and points[0]["timeUnixNano"] == "1767240000000000000"
    assert main(["history", "--runs", str(slower), "--json", "--collective", "all_gather"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_no_runs_are_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--runs", str(tmp_path)]) == 0
    assert "no kept run" in capsys.readouterr().out


def test_a_folder_that_is_not_there_fails_a_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--runs", str(tmp_path / "rnus")]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_a_page_has_a_curve_over_time_and_the_change(slower: Path, tmp_path: Path) -> None:
    path = tmp_path / "history.html"
    words = ["--collective", "all_reduce", "--runs", str(slower)]
    assert main(["history", *words, "--margin", "3", "--page", str(path)]) == 1
    text = path.read_text()
    assert f"busbw history {' '.join(words)} --margin 3" in text
    (data,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', text)
    (view,) = json.loads(data)["views"]
    relative, plot = view["plots"]
    # Half of the runs took a tenth longer, and the median lies between.
    shares = [point[1] for point in relative["lines"][0]["points"]]
    assert 0.93 < min(shares) < 0.97 and 1.03 < max(shares) < 1.07
    assert plot["over"] == "time" and [len(line["points"]) for line in plot["lines"]] == [24, 24]
    assert plot["lines"][0]["points"][0][0] == 1767240000  # 2026-01-01T04:00:00Z
    assert "slower from run run0012 on: library NCCL 2.27.3" in text


class Gateway(BaseHTTPRequestHandler):
    """Keeps what was sent to it."""

    taken: ClassVar[list[tuple[str, str]]] = []

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.taken.append((self.path, body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def test_a_push_gateway_gets_the_newest_times(slower: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("prometheus_client")
    server = HTTPServer(("127.0.0.1", 0), Gateway)
    thread = threading.Thread(target=server.handle_request, daemon=True)
    thread.start()
    assert main(["history", "--runs", str(slower), "--push", f"http://127.0.0.1:{server.server_port}"]) == 1
    thread.join(10)
    server.server_close()
    ((path, body),) = Gateway.taken
    assert path == f"/metrics/job/busbw/instance/{socket.gethostname()}"
    assert 'bytes="1073741824",collective="all_reduce",machine="ndv5"' in body
    assert main(["history", "--runs", str(slower), "--push", f"http://127.0.0.1:{server.server_port}"]) == 2
    assert "took nothing" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--push", "ftp://x"), ("--push-otlp", "collector:4318")])
def test_a_push_to_what_is_no_web_address_is_wrong_usage(
    slower: Path, words: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", "--runs", str(slower), *words]) == 2
    assert f"{' '.join(words)}: a " in capsys.readouterr().err


def test_a_push_without_the_client_is_a_sentence(
    slower: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert main(["history", "--runs", str(slower), "--push", "http://127.0.0.1:1"]) == 2
    assert "pip install prometheus-client" in capsys.readouterr().err


class Receiver(BaseHTTPRequestHandler):
    """Keeps what an exporter sends."""

    taken: ClassVar[list[tuple[str, bytes]]] = []

    def do_POST(self) -> None:
        self.taken.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def test_a_receiver_of_otlp_gets_every_run(slower: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http.metric_exporter")
    import gzip
    from importlib import import_module

    messages = import_module("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.handle_request, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/v1/metrics"
    assert main(["history", "--runs", str(slower), "--push-otlp", url]) == 1
    assert "took nothing" not in capsys.readouterr().err
    thread.join(10)
    server.server_close()
    ((path, body),) = Receiver.taken
    message = messages.ExportMetricsServiceRequest.FromString(
        gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
    )
    (metric,) = message.resource_metrics[0].scope_metrics[0].metrics
    points = metric.gauge.data_points
    assert path == "/v1/metrics" and (metric.name, metric.unit, len(points)) == ("busbw.time", "s", 48)
    assert points[0].time_unix_nano == 1767240000 * 10**9 and 0.003 < points[-1].as_double < 0.006


def test_a_push_of_otlp_without_the_exporter_is_a_sentence(
    slower: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)
    assert main(["history", "--runs", str(slower), "--push-otlp", "http://127.0.0.1:1"]) == 2
    assert "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http" in capsys.readouterr().err


def test_the_documented_example_is_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(42):
        late = number >= 28
        day = datetime(2026, 1, 3, 4, tzinfo=timezone.utc) + timedelta(days=number + 11 * late)
        name, time_us = f"{day:%Y%m%dT%H%M}-gpu7", 4310.77 if late else 3914.2
        time_us *= 1 + 0.002 * (number * 7 % 5 - 2) * (0 < number < 41)
        library = Library("NCCL", version="2.28.9" if late else "2.27.3")
        run = Run(name, day.isoformat(), Tool("busbw", "1"), library, machine="ndv5")
        case = Case(name, 0, "all_reduce", 1 << 30, "out_of_place", "measured", time_us, type="float", ranks=8)
        store.add(Record(run, (case,), End(name, "completed", 1)), tmp_path)
    assert main(["history", "--runs", str(tmp_path)]) == 1
    page = (Path(__file__).parents[3] / "docs" / "reference" / "history.md").read_text()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and "\n".join(f"    {line}" for line in lines) in page


def dated(folder: Path, number: int, started: str | None, time_us: float) -> None:
    """A run with one case that says when it was in its own way."""
    name = f"dated{number:04d}"
    library = Library("NCCL", version="2.29.2" if time_us > 4200 else "2.28.9")
    run = Run(name, started, Tool("busbw", "1"), library, machine="ndv5")
    case = Case(name, 0, "all_reduce", 1 << 30, "out_of_place", "measured", time_us, type="float", ranks=8)
    store.add(Record(run, (case,), End(name, "completed", 1)), folder)


def test_runs_of_several_time_zones_are_in_their_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, rng = datetime(2026, 3, 1, tzinfo=timezone.utc), random.Random(4)
    for number in range(36):
        zone = timezone(timedelta(hours=(0, 12, -11)[number % 3]))
        when = (first + timedelta(hours=number)).astimezone(zone)
        dated(tmp_path, number, when.isoformat(), (4000.0 if number < 18 else 4400.0) * rng.gauss(1, 0.004))
    assert main(["history", "--runs", str(tmp_path), "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert [each["run"] for each in found["runs"]] == [f"dated{number:04d}" for number in range(36)]
    assert [change["run"] for change in found["changes"]] == ["dated0018"]


def test_what_is_no_date_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, started in enumerate(
        ("2026-03-01T00:00:00Z", "yesterday", "2026-13-45T99:00:00Z", "0001-01-01T00:00:00+14:00", None, "")
    ):
        dated(tmp_path, number, started, 4000.0)
    assert main(["history", "--runs", str(tmp_path)]) == 0
    assert "1 run since 2026-03-01" in capsys.readouterr().out
    assert main(["history", "--runs", str(tmp_path), "--export", "otlp"]) == 0
    assert '"timeUnixNano": "0"' not in capsys.readouterr().out


def test_only_what_was_measured_out_of_place_counts_and_nodes_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(5)
    for number in range(24):
        name, late = f"run{number:04d}", number >= 12
        ranks = tuple(Rank(rank, "gpu8" if late else "gpu7") for rank in range(8))
        run = Run(name, f"2026-02-{1 + number:02d}T00:00:00Z", Tool("busbw", "1"), None, ranks=ranks, machine="ndv5")
        time_us = (4400 if late else 4000) * rng.gauss(1, 0.004)
        # In place is faster, and so is what computed nothing; neither may stand for the run.
        cases = [
            Case(name, index, "all_reduce", 1 << 30, placement, outcome, time_us * share, type="float", ranks=8)
            for index, (placement, outcome, share) in enumerate(
                (("out_of_place", "measured", 1.0), ("in_place", "measured", 0.5), ("out_of_place", "failed", 0.25))
            )
        ]
        store.add(Record(run, tuple(cases), End(name, "completed", 3)), tmp_path)
    assert main(["history", "--runs", str(tmp_path), "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert all(3500 < each["time_us"] < 5000 for each in found["runs"])
    assert main(["history", "--runs", str(tmp_path)]) == 1
    assert "slower from run run0012 on: nodes gpu7 -> gpu8" in capsys.readouterr().out


def kept(folder: Path, number: int, time_us: float, **more: object) -> None:
    """A run of one case, of a machine whose parts are given by name."""
    system = {name: str(more.pop(name)) for name in ("driver", "kernel") if name in more}
    context = {"impossible": "no link carries that"} if more.pop("impossible", False) else {}
    wrong, environment = more.pop("wrong", 0), more.pop("environment", {})
    host, machine = str(more.pop("host", "gpu7")), more.pop("machine", "ndv5")
    started = (datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(days=number)).isoformat()
    name = f"run{number:04d}"
    run = Run(
        name,
        str(more.pop("started", started)),
        Tool("busbw", "1"),
        Library("NCCL", version="2.28.9"),
        (Rank(0, host),),
        environment,
        machine=machine,
        system=system,
    )  # type: ignore[arg-type]
    case = Case(
        name,
        0,
        "all_reduce",
        1 << 20,
        "out_of_place",
        "measured",
        time_us,
        type="float",
        ranks=8,
        wrong=wrong,
        context=context,
    )  # type: ignore[arg-type]
    store.add(Record(run, (case,), End(name, "completed", 1)), folder)


def told(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    code = main(["history", "--runs", str(folder)])
    return code, [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]


def test_driver_kernel_and_node_are_named_and_what_changes_in_every_run_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(3)
    for number in range(24):
        # The change shows a run after the upgrade, as where the first run behind it was lucky.
        new, slow = number >= 11, number >= 12
        kept(
            tmp_path,
            number,
            (110.0 if slow else 100.0) * rng.gauss(1, 0.004),
            driver="580.95.05" if new else "570.124.06",
            kernel="6.8.0-1040" if new else "6.8.0-1021",
            host="gpu9" if new else "gpu7",
            environment={"SLURM_JOB_ID": str(number), "NCCL_DEBUG_FILE": f"/log/{number}", "NCCL_ALGO": "Ring"},
        )
    code, (line,) = told(tmp_path, capsys)
    assert code == 1 and "% slower from run run0012 on: " in line
    assert line.endswith("driver 570.124.06 -> 580.95.05; kernel 6.8.0-1021 -> 6.8.0-1040; nodes gpu7 -> gpu9")
    with Index(tmp_path) as index:
        assert index.rows("SELECT DISTINCT driver FROM runs ORDER BY 1") == [("570.124.06",), ("580.95.05",)]


def test_wrong_results_are_neither_fast_nor_slow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(4)
    for number in range(40):
        wrong = number >= 25
        kept(tmp_path, number, (20.0 if wrong else 100.0) * rng.gauss(1, 0.004), wrong=7 if wrong else 0)
    assert told(tmp_path, capsys) == (0, [])


def test_impossible_figures_are_neither_fast_nor_slow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(4)
    for number in range(40):
        kept(tmp_path, number, (1.0 if number >= 25 else 100.0) * rng.gauss(1, 0.004), impossible=number >= 25)
    assert told(tmp_path, capsys) == (0, [])


def test_days_that_are_missing_and_a_clock_that_was_wrong_hide_no_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(5)
    for number in sorted(rng.sample(range(120), 50)):
        kept(tmp_path, number, (110.0 if number >= 60 else 100.0) * rng.gauss(1, 0.004))
    # Clocks that were not set: before any NCCL, and no time at all.
    for number, started in enumerate(("1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "soon"), start=200):
        kept(tmp_path, number, 5.0, started=started)
    code, (line,) = told(tmp_path, capsys)
    assert code == 1 and line.startswith("  2026-0") and "10." in line
