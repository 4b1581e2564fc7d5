"""Metrics of a running job for programs that draw them: a port for Prometheus that only its user can read, and OTLP."""

from __future__ import annotations

import io
import logging
import os
import re
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from busbw.base.errors import PackageError, UserError
from busbw.base.prometheus import Family

_PATIENCE_S = 5.0
"""So long a reader may take for its question."""
_MOST_READERS = 16
_PUSH_S = 10.0
_MAX_TABLE = 16 << 20
_OTLP = "opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"


class Endpoint:
    """Answers on 127.0.0.1, to processes of this user (and root) alone; `port` 0 takes a free one.

    Each reader has a thread, so that one who is slow holds up neither another nor the end of the job.
    """

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
            self._server = _Server(("127.0.0.1", port), _Handler)
            self._server.set_app(app)
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

    def strangers(self) -> str:
        """What is told at the end of those who were refused; empty where nobody was."""
        others, many = self._server.others, self._server.too_many
        kinds = [f"{count:,} {what}" for count, what in ((others, "of another user"), (many, "too many at a time"))
                 if count]  # fmt: skip
        word = "connection" if others + many == 1 else "connections"
        return f"{others + many:,} {word} to the metrics' port refused ({', '.join(kinds)})" if kinds else ""

    def close(self) -> None:
        """No reader is answered any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_PATIENCE_S)


class _Server(ThreadingMixIn, WSGIServer):
    """Asks the kernel who is at the other end before it reads a byte from there."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    others = too_many = 0

    def __init__(self, *args: Any, **more: Any) -> None:
        self._room = threading.BoundedSemaphore(_MOST_READERS)
        super().__init__(*args, **more)

    def server_bind(self) -> None:
        """Without a question about this host's name, which may take seconds and which nobody needs."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", int(self.server_address[1])
        self.setup_environ()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        request.settimeout(_PATIENCE_S)
        if uid_of_peer(client_address[1], self.server_port) not in {os.geteuid(), 0}:
            self.others += 1
            return False
        if not self._room.acquire(blocking=False):
            self.too_many += 1
            return False
        return True

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        over = threading.Timer(_PATIENCE_S, _hang_up, (request,))
        over.daemon = True
        over.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            over.cancel()
            self._room.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A reader that goes away is none of the job's business."""


def _hang_up(request: socket.socket) -> None:
    """On a reader that takes too long in all, whatever it says meanwhile."""
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(WSGIRequestHandler):
    timeout = _PATIENCE_S

    def log_message(self, *_: object) -> None:
        """The job's stderr is the job's."""

    def get_stderr(self) -> Any:
        """Nor do its own troubles go there."""
        return io.StringIO()


def uid_of_peer(port: int, ours: int) -> int | None:
    """Whose the socket is that has come from that port of 127.0.0.1; None where the kernel does not tell."""
    uid = _uid_by_netlink(port, ours)
    return _uid_by_table(port, ours) if uid is None else uid


_ASKED = struct.Struct("=IHHII BBBxI HH16s16sIII".replace(" ", ""))
_ANSWER = struct.Struct("=IHHII BBBB 4s 16s16sIII IIII".replace(" ", ""))
_SOCK_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1


def _uid_by_netlink(port: int, ours: int) -> int | None:
    """One question for one connection, however many there are (sock_diag(7))."""
    home = socket.inet_aton("127.0.0.1").ljust(16, b"\0")
    ends = struct.pack("!HH", port, ours)
    asked = _ASKED.pack(
        _ASKED.size, _BY_FAMILY, _REQUEST, 1, 0, socket.AF_INET, socket.IPPROTO_TCP, 0, 0xFFFFFFFF,
        *struct.unpack("=HH", ends), home, home, 0, 0xFFFFFFFF, 0xFFFFFFFF,
    )  # fmt: skip
    with suppress(OSError, AttributeError, struct.error):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _SOCK_DIAG) as kernel:
            kernel.settimeout(1.0)
            kernel.send(asked)
            answer = kernel.recv(4096)
        _, kind, _, _, _, *rest = _ANSWER.unpack_from(answer)
        # Where there is no such connection the kernel tells of whoever listens on the port.
        if kind == _BY_FAMILY and rest[4] == ends:
            return int(rest[-1])
    return None


def _uid_by_table(port: int, ours: int) -> int | None:
    here = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), sys.byteorder):08X}"
    # IPv6 wraps the address.
    ends = re.compile(rf"{here}:{port:04X} (?:[0-9A-F]{{24}})?{here}:{ours:04X} (?:[0-9A-F:]+\s+){{4}}(\d+) ".encode())
    for table in ("tcp", "tcp6"):
        with suppress(OSError), Path("/proc/net", table).open("rb") as file:
            if found := ends.search(file.read(_MAX_TABLE)):
                return int(found[1])
    return None


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
