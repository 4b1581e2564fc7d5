"""Metrics by port and by push, with the world's own clients: who may read, what they get, and what nobody waits for."""

from __future__ import annotations

import gzip
import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from made_recordings import Made, Row, write

from busbw.base.errors import UserError
from busbw.base.prometheus import Family
from busbw.watch import endpoint
from busbw.watch.endpoint import Endpoint, Pusher
from busbw.watch.live import Follower
from busbw.watch.recording import Recording, find

FAMILIES = [
    Family("busbw_calls_total", "counter", "Calls.", [({"rank": '0"\n'}, 7), ({"rank": "1"}, 8)]),
    Family("busbw_waited_seconds_total", "counter", "Waits.", [({}, 0.5)]),
]


def test_what_a_job_called_is_all_there(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    write(tmp_path, 0, [Row(0, 2)], [Made(n * 10**6, 100_000) for n in range(20)])
    served, follower = Endpoint(0), Follower(newest=None)
    try:
        read = [Recording(path) for path in find(tmp_path)]
        follower.read_all(read)
        served.show(follower.sums.families(read, follower.stragglers, follower.lates, follower.arrivals.skipped))
        assert 'busbw_calls_total{host="node",pid="1000",rank="0"} 20.0\n' in get(served.url)
    finally:
        served.close()


def get(url: str) -> str:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
        text: str = answer.read().decode()
    return text


def test_prometheus_reads_what_was_shown_last() -> None:
    pytest.importorskip("prometheus_client")
    from prometheus_client.parser import text_string_to_metric_families

    served = Endpoint(0)
    try:
        assert served.url.startswith("http://127.0.0.1:")
        served.show(FAMILIES)
        read = {family.name: family for family in text_string_to_metric_families(get(served.url))}
        assert [(s.labels, s.value) for s in read["busbw_calls"].samples] == [({"rank": '0"\n'}, 7), ({"rank": "1"}, 8)]
        assert read["busbw_waited_seconds"].samples[0].value == 0.5
    finally:
        served.close()
    with pytest.raises(OSError, match="refused"):
        get(served.url)


@pytest.mark.parametrize("uid", [None, 4_000_000_000])
def test_nobody_else_gets_a_byte(monkeypatch: pytest.MonkeyPatch, uid: int | None) -> None:
    pytest.importorskip("prometheus_client")
    monkeypatch.setattr(endpoint, "uid_of_peer", lambda *_: uid)
    served = Endpoint(0)
    try:
        served.show(FAMILIES)
        with pytest.raises(OSError, match=r"closed|reset"):
            get(served.url)
    finally:
        served.close()
    assert served.strangers() == "1 connection to the metrics' port refused (1 of another user)"


@pytest.fixture
def served() -> Iterator[Endpoint]:
    pytest.importorskip("prometheus_client")
    made = Endpoint(0)
    made.show(FAMILIES)
    yield made
    made.close()


def calls(served: Endpoint, said: bytes = b"") -> socket.socket:
    link = socket.create_connection(("127.0.0.1", int(served.url.rsplit(":", 1)[1].split("/")[0])), 5.0)
    link.sendall(said)
    return link


def test_slow_half_open_and_idle_readers_hold_up_neither_another_nor_the_end(served: Endpoint) -> None:
    with ExitStack() as stack:
        for said in (b"", b"GET /metr", b"\x16\x03\x01\0\0\n\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 4096):
            stack.enter_context(calls(served, said))
        half = stack.enter_context(calls(served, b"GET /metrics HTTP/1.1\r\n"))
        half.shutdown(socket.SHUT_WR)
        began = time.monotonic()
        assert "busbw_calls_total" in get(served.url)
        served.close()
        assert time.monotonic() - began < 3.0
    assert served.strangers() == ""


def test_a_reader_that_says_a_byte_at_a_time_is_hung_up_on(served: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_PATIENCE_S", 1.0)
    began = time.monotonic()
    with calls(served) as slow, pytest.raises(OSError, match=r"Broken pipe|reset"):
        while time.monotonic() - began < 20:
            slow.sendall(b"G")
            time.sleep(0.1)
    assert time.monotonic() - began < 10


def test_two_thousand_idle_connections_of_others_delay_nobody(
    served: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    whose, strange = endpoint.uid_of_peer, set[int]()

    def asked(port: int, ours: int) -> int | None:
        uid = whose(port, ours)  # takes what it takes
        return 4_000_000_000 if port in strange else uid

    monkeypatch.setattr(endpoint, "uid_of_peer", asked)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = 2000 if hard == resource.RLIM_INFINITY or hard > 6000 else 600
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8000), hard))
    try:
        with ExitStack() as stack:
            for _ in range(count):
                link = stack.enter_context(socket.socket())
                link.bind(("127.0.0.1", 0))
                strange.add(link.getsockname()[1])
                link.connect(("127.0.0.1", int(served.url.rsplit(":", 1)[1].split("/")[0])))
            began = time.monotonic()
            assert "busbw_calls_total" in get(served.url)
            assert time.monotonic() - began < 5.0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert served.strangers() == f"{count:,} connections to the metrics' port refused ({count:,} of another user)"


def test_more_readers_than_there_is_room_for_are_counted(served: Endpoint) -> None:
    with ExitStack() as stack:
        for _ in range(endpoint._MOST_READERS + 3):
            stack.enter_context(calls(served))
        end = time.monotonic() + 10
        while not served.strangers():
            assert time.monotonic() < end
            time.sleep(0.02)
    assert "too many at a time" in served.strangers()


def test_a_reader_that_has_gone_leaves_its_room_to_the_next(served: Endpoint) -> None:
    for _ in range(endpoint._MOST_READERS + 2):
        get(served.url)
    assert served.strangers() == ""


def test_the_kernel_says_whose_a_connection_is() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()) as link:
        here, there = door.getsockname()[1], link.getsockname()[1]
        for asked in (endpoint._uid_by_netlink, endpoint._uid_by_table, endpoint.uid_of_peer):
            assert asked(there, here) == os.geteuid()
            assert asked(there, here + 1) is None
            assert asked(here, there + 1) is None


def test_of_another_user_s_connection_the_kernel_says_so() -> None:
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv")
    with socket.create_server(("127.0.0.1", 0)) as door, ExitStack() as stack:
        here = door.getsockname()[1]
        waits = f"import socket, sys; s = socket.create_connection(('127.0.0.1', {here})); sys.stdin.read()"
        other = stack.enter_context(subprocess.Popen(
            ["setpriv", "--reuid", "65534", "--clear-groups", "/usr/bin/env", "python3", "-c", waits],
            stdin=subprocess.PIPE, env={"PATH": os.defpath + ":/usr/local/bin"},
        ))  # fmt: skip
        stack.callback(other.kill)
        door.settimeout(20)
        link = stack.enter_context(door.accept()[0])
        there = link.getpeername()[1]
        assert endpoint._uid_by_netlink(there, here) == endpoint._uid_by_table(there, here) == 65534


def test_a_port_that_is_taken_is_a_sentence() -> None:
    pytest.importorskip("prometheus_client")
    served = Endpoint(0)
    try:
        with pytest.raises(UserError, match="0 takes a free one"):
            Endpoint(int(served.url.rsplit(":", 1)[1].split("/")[0]))
    finally:
        served.close()


@pytest.mark.parametrize("make", [lambda: Endpoint(0), lambda: Pusher("http://localhost", print)])
def test_a_missing_client_is_a_sentence(monkeypatch: pytest.MonkeyPatch, make: type) -> None:
    for name in ("prometheus_client", "opentelemetry.exporter.otlp.proto.http.metric_exporter"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=r"pip install (prometheus-client|opentelemetry-sdk)"):
        make()


@contextmanager
def collector(status: int) -> Iterator[tuple[str, list[bytes]]]:
    """Takes what OpenTelemetry's clients send."""
    got: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/metrics", got
    finally:
        server.shutdown()
        server.server_close()


def test_a_collector_gets_the_last_sums() -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http.metric_exporter")
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    said: list[str] = []
    with collector(200) as (url, got):
        pusher = Pusher(url, said.append)
        pusher.show([Family("busbw_calls_total", "counter", "Calls.", [({"rank": "0"}, 1)])])
        pusher.show(FAMILIES)
        pusher.close()
    request = ExportMetricsServiceRequest()
    request.ParseFromString(got[-1])
    metrics = {each.name: each for each in request.resource_metrics[0].scope_metrics[0].metrics}
    assert {name: each.unit for name, each in metrics.items()} == {"busbw_calls": "1", "busbw_waited_seconds": "s"}
    points = metrics["busbw_calls"].sum.data_points
    assert metrics["busbw_calls"].sum.is_monotonic
    assert sorted(point.as_int or point.as_double for point in points) == [7, 8]
    assert said == []


def test_a_collector_that_refuses_is_told_once() -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http.metric_exporter")
    said: list[str] = []
    with collector(400) as (url, got):
        pusher = Pusher(url, said.append)
        pusher.show(FAMILIES)
        pusher.close()
    assert got
    assert said == [f"--otlp {url}: the collector did not take the last metrics"]


def test_an_address_that_is_none_is_a_sentence() -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http.metric_exporter")
    with pytest.raises(UserError, match="give the collector's address"):
        Pusher("localhost:4318", print)
