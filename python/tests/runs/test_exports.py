"""What history and watch export is read by the well-kept clients as it was meant, whatever stands in a label."""

from __future__ import annotations

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from pathlib import Path
from typing import ClassVar

import pytest

from busbw.base.prometheus import Family, exposition
from busbw.cli.main import main
from busbw.records import Case, End, Record, Run, Tool
from busbw.runs import store
from busbw.runs.export import NAME, otlp, prometheus
from busbw.runs.history import series
from busbw.runs.index import Index

HOSTILE = [
    'a"b', "a\\b", "a\\", "a\nb", "a\\nb", "a\rb", "a\r\nb", "\t", "\u2028", "\x00", "\x1b[31mred", "{}=,", "", " ",
    '"} 1\nother 2', "é", "漢字", "\U0001f600", "\u202egnp", "x" * 100_000, "# HELP", "a\x85b", "a\x0bb\x0cc\x1cd",
    "\ud800",
]  # fmt: skip
"""Names that somebody's record may give a machine."""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    for number, machine in enumerate(HOSTILE):
        name = f"run{number:04d}"
        case = Case(name, 0, "all_reduce", 1 << 20, "out_of_place", "measured", 100.0 + number, ranks=8)
        run = Run(name, f"2026-05-01T00:00:{number:02d}Z", Tool("busbw", "1"), None, machine=machine)
        store.add(Record(run, (case,), End(name, "completed", 1)), tmp_path)
    return tmp_path


def machines(folder: Path) -> dict[str, float]:
    with Index(folder) as index:
        return {each.machine: each.runs[-1].time_us * 1e-6 for each in series(index)}


def test_prometheus_client_reads_every_name_as_it_is(hostile: Path) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    with Index(hostile) as index:
        text = prometheus(series(index))
    (family,) = parser.text_string_to_metric_families(text)
    assert (family.name, family.type) == (NAME, "gauge")
    read = {sample.labels["machine"]: sample.value for sample in family.samples}
    assert read == pytest.approx(machines(hostile)) and len(read) == len(set(HOSTILE))


def test_the_messages_of_opentelemetry_take_the_json(hostile: Path) -> None:
    messages = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
    from google.protobuf import json_format

    with Index(hostile) as index:
        text = otlp(series(index))
    text.encode()
    message = json_format.Parse(text, messages.ExportMetricsServiceRequest())
    (metric,) = message.resource_metrics[0].scope_metrics[0].metrics
    read = {
        next(each.value.string_value for each in point.attributes if each.key == "machine"): point.as_double
        for point in metric.gauge.data_points
    }
    assert read == pytest.approx(machines(hostile))


class Taker(BaseHTTPRequestHandler):
    """Keeps what clients send."""

    bodies: ClassVar[list[bytes]] = []

    def do_PUT(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    do_POST = do_PUT

    def log_message(self, *_: object) -> None: ...


@pytest.mark.parametrize("option", ["--push", "--push-otlp"])
def test_the_clients_send_every_name(hostile: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http.metric_exporter")
    server = HTTPServer(("127.0.0.1", 0), Taker)
    thread = threading.Thread(target=server.handle_request, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/v1/metrics"
    code = main(["history", "--runs", str(hostile), option, url if option == "--push-otlp" else url[:-11]])
    thread.join(10)
    server.server_close()
    assert code == 0 and "took nothing" not in capsys.readouterr().err
    body = Taker.bodies.pop()
    if option == "--push":
        (family,) = parser.text_string_to_metric_families(body.decode())
        assert {sample.labels["machine"] for sample in family.samples} == set(machines(hostile))
    else:
        messages = import_module("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
        body = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
        message = messages.ExportMetricsServiceRequest.FromString(body)
        (metric,) = message.resource_metrics[0].scope_metrics[0].metrics
        assert len(metric.gauge.data_points) == len(HOSTILE)


@pytest.mark.parametrize("text", HOSTILE[:-1])
def test_what_watch_writes_is_read_as_it_is(text: str) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    families = [
        Family("busbw_calls_total", "counter", f"Calls {text}.", [({"rank": text, "host": "a"}, 3.0)]),
        Family("busbw_late_seconds", "gauge", "Late.", [({"rank": text}, 0.5), ({}, 2.0)]),
    ]
    calls, late = parser.text_string_to_metric_families(exposition(families))
    assert calls.samples[0].labels == {"rank": text, "host": "a"} and calls.samples[0].value == 3.0
    assert [(each.labels, each.value) for each in late.samples] == [({"rank": text}, 0.5), ({}, 2.0)]


@pytest.mark.parametrize("time_us", ["1e400", "-1e400", "NaN", "1e300", "1e-400", "true", '"fast"', "null"])
def test_a_time_that_is_no_time_is_exported_nowhere(
    time_us: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(2):
        name = f"run{number}"
        case = Case(name, 0, "all_reduce", 1 << 20, "out_of_place", "measured", 100.0, ranks=8)
        run = Run(name, f"2026-05-01T00:00:0{number}Z", Tool("busbw", "1"), None, machine="ndv5")
        path = store.add(Record(run, (case,), End(name, "completed", 1)), tmp_path)
        if number:
            path.write_text(path.read_text().replace('"time_us":100.0', f'"time_us":{time_us}'))
            assert time_us in path.read_text()
    for words in ([], ["--export", "prometheus"], ["--export", "otlp"], ["--json"]):
        assert main(["history", "--runs", str(tmp_path), *words]) in {0, 2}, words
        said = capsys.readouterr()
        assert "Traceback" not in said.err and not {"inf", "nan", "infinity"} & set(said.out.lower().split())
        if words[-1:] in (["otlp"], ["--json"]):
            json.loads(said.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


OTHER_KINDS = [None, True, 3, -1, 1.5, 10**30, "word", "", [], [1], {}, {"a": 1}]
PLACES = [
    ("run", "started"), ("run", "machine"), ("run", "launcher"), ("run", "system"), ("run", "tool"), ("run", "library"),
    ("run", "ranks"), ("run", "environment"), ("case", "collective"), ("case", "type"), ("case", "ranks"),
    ("case", "bytes"), ("case", "time_us"), ("case", "placement"), ("case", "outcome"), ("case", "wrong"),
    ("case", "context"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), PLACES)
def test_a_record_whose_field_is_of_another_kind_harms_no_other(
    kind: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count = 30
    for number in range(count + len(OTHER_KINDS)):
        run = Run(f"run{number:02d}", f"2026-05-01T00:00:{number:02d}Z", Tool("busbw", "1"), None, machine="ndv5")
        time_us = 110.0 if number >= count // 2 else 100.0 + number % 3
        case = Case(run.run, 0, "all_reduce", 1 << 20, "out_of_place", "measured", time_us, ranks=8)
        path = store.add(Record(run, (case,), End(run.run, "completed", 1)), tmp_path)
        if number >= count:
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            for line in lines:
                if line["kind"] == kind:
                    line[name] = OTHER_KINDS[number - count]
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for words in ([], ["--export", "prometheus"], ["--export", "otlp"], ["--json"]):
        assert main(["history", "--runs", str(tmp_path), *words]) == 1, words
        said = capsys.readouterr()
        assert "Traceback" not in said.err and "ndv5" in said.out and "all_reduce" in said.out
