"""Metrics of a running job for programs that draw them: a port for Prometheus that only its user can read, and OTLP."""

from __future__ import annotations

import io
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from busbw.base.errors import PackageError, UserError
from busbw.base.prometheus import Family

_PATIENCE_S = 5.0
"""So long a reader may take for its question."""
_PUSH_S = 10.0
_MAX_TABLE = 16 << 20
_OTLP = "opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"


class Endpoint:
    """Answers on 127.0.0.1, to processes of this user (and root) alone; `port` 0 takes a free one."""

    def __init__(self, port: int) -> None:
        client = _client(
            "prometheus_client", "--prometheus-port", "prometheus-client", "--prometheus FILE needs nothing"
        )
        self._families: Sequence[Family] = ()
        self._kinds = import_module("prometheus_client.core")
        registry = client.CollectorRegistry()
        registry.register(self)
        try:
            app: Any = client.make_wsgi_app(registry)
            self._server = make_server("127.0.0.1", port, app, server_class=_Server, handler_class=_Handler)
        except OSError as error:
            raise UserError(f"--prometheus-port {port}: {error.strerror}; 0 takes a free one") from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where Prometheus is to look."""
        return f"http://127.0.0.1:{self._server.server_port}/metrics"

    def show(self, families: Sequence[Family]) -> None:
        """What the next reader gets."""
        self._families = tuple(families)

    def collect(self) -> Iterator[object]:
        """As Prometheus' client asks for it."""
        for family in self._families:
            names = sorted({name for labels, _ in family.samples for name in labels})
            make = self._kinds.CounterMetricFamily if family.kind == "counter" else self._kinds.GaugeMetricFamily
            found = make(family.name, family.help, labels=names)
            for labels, value in family.samples:
                found.add_metric([labels.get(name, "") for name in names], value)
            yield found

    def close(self) -> None:
        """No reader is answered any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_PATIENCE_S)


class _Server(WSGIServer):
    """Asks the kernel who is at the other end before it reads a byte from there."""

    def verify_request(self, request: Any, client_address: Any) -> bool:
        request.settimeout(_PATIENCE_S)
        return uid_of_peer(client_address[1], self.server_port) in {os.geteuid(), 0}

    def handle_error(self, request: object, client_address: object) -> None:
        """A reader that goes away is none of the job's business."""


class _Handler(WSGIRequestHandler):
    timeout = _PATIENCE_S

    def log_message(self, *_: object) -> None:
        """The job's stderr is the job's."""

    def get_stderr(self) -> Any:
        """Nor do its own troubles go there."""
        return io.StringIO()


def uid_of_peer(port: int, ours: int) -> int | None:
    """Whose the socket is that has come from that port of 127.0.0.1; None where the kernel does not tell."""
    here = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), sys.byteorder):08X}"
    for table in ("tcp", "tcp6"):
        try:
            with Path("/proc/net", table).open("rb") as file:
                lines = file.read(_MAX_TABLE).decode("ascii", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines[1:]:
            words = line.split()
            if len(words) > 7 and (_ends(words[1]), _ends(words[2])) == ((here, port), (here, ours)):
                return int(words[7])
    return None


def _ends(word: str) -> tuple[str, int]:
    """Address, of one that IPv6 wraps the last part, and port."""
    address, _, port = word.partition(":")
    return address[-8:], int(port, 16)


class Pusher:
    """Sends sums to an OpenTelemetry collector every ten seconds and at the end, by OpenTelemetry's own client."""

    def __init__(self, url: str, say: Callable[[str], None]) -> None:
        name = "opentelemetry.exporter.otlp.proto.http.metric_exporter"
        exporter = _client(name, "--otlp", _OTLP, "--prometheus FILE needs nothing")
        sdk, export = import_module("opentelemetry.sdk.metrics"), import_module("opentelemetry.sdk.metrics.export")
        resources = import_module("opentelemetry.sdk.resources")
        self._observation = import_module("opentelemetry.metrics").Observation
        if not url.startswith(("http://", "https://")):
            raise UserError(f"--otlp {url}: give the collector's address, such as http://localhost:4318/v1/metrics")
        # Its client tells each try; what matters is told at the end, by us.
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
        logging.getLogger("opentelemetry").propagate = False
        self._families: dict[str, Family] = {}
        self._known: set[str] = set()
        self._say, self._url = say, url
        sender = exporter.OTLPMetricExporter(endpoint=url, timeout=_PUSH_S)
        sent, self._took = sender.export, True

        def heard(*args: object, **more: object) -> object:
            result = sent(*args, **more)
            self._took = result is export.MetricExportResult.SUCCESS
            return result

        sender.export = heard
        reader = export.PeriodicExportingMetricReader(sender, export_interval_millis=_PUSH_S * 1000)
        resource = resources.Resource.create({"service.name": "busbw watch"})
        self._provider = sdk.MeterProvider(metric_readers=[reader], resource=resource, shutdown_on_exit=False)
        self._meter = self._provider.get_meter("busbw")

    def show(self, families: Sequence[Family]) -> None:
        """What is sent next."""
        for family in families:
            self._families[family.name] = family
            if family.name not in self._known:
                self._known.add(family.name)
                name = family.name.removesuffix("_total")
                unit = "s" if "seconds" in name else "By" if "bytes" in name else "1"
                counts = family.kind == "counter"
                make = self._meter.create_observable_counter if counts else self._meter.create_observable_gauge
                make(name, callbacks=[self._asked(family.name)], unit=unit, description=family.help)

    def _asked(self, name: str) -> Callable[[object], Iterable[object]]:
        def observe(_: object) -> Iterable[object]:
            return [self._observation(value, dict(labels)) for labels, value in self._families[name].samples]

        return observe

    def close(self) -> None:
        """Send the last sums; a collector that is gone is told, and no job fails by it."""
        try:
            self._took = self._provider.force_flush(_PUSH_S * 1000) and self._took
            self._provider.shutdown(timeout_millis=1000)
        except Exception:  # noqa: BLE001 - whatever the client raises, the job goes on
            self._took = False
        if not self._took:
            self._say(f"--otlp {self._url}: the collector did not take the last metrics")


def _client(name: str, option: str, packages: str, instead: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise PackageError(option, packages, instead) from None
