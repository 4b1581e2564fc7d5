"""Kept runs over time for other programs: Prometheus' text, OTLP's JSON, a push gateway, a receiver of OTLP."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from busbw.base.errors import PackageError, UsageError, UserError
from busbw.runs.history import Series, instant

PUSH_S = 10.0
_HTTP = ("http://", "https://")
NAME, HELP = "busbw_time_seconds", "Time of one call in the newest kept run."


def labels(each: Series) -> dict[str, str]:
    """What a series is told apart by."""
    return {"machine": each.machine, "collective": each.collective, "type": each.type, "ranks": str(each.ranks),
            "bytes": str(each.bytes)}  # fmt: skip


def prometheus(every: Sequence[Series]) -> str:
    """The text format of a push gateway: the newest time of each series."""
    lines = [f"# HELP {NAME} {HELP}", f"# TYPE {NAME} gauge"]
    for each in every:
        said = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels(each).items())
        lines.append(f"{NAME}{{{said}}} {each.runs[-1].time_us * 1e-6:.9g}")
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def otlp(every: Sequence[Series]) -> str:
    """OTLP's JSON for metrics (opentelemetry-proto, metrics/v1): every run of each series is a data point."""
    points = [
        {"attributes": [{"key": name, "value": {"stringValue": value}} for name, value in labels(each).items()],
         "timeUnixNano": str(nanoseconds(seen.started)), "asDouble": seen.time_us * 1e-6}
        for each in every for seen in each.runs
    ]  # fmt: skip
    metric = {"name": "busbw.time", "unit": "s", "gauge": {"dataPoints": points}}
    scope = {"scope": {"name": "busbw"}, "metrics": [metric]}
    return json.dumps({"resourceMetrics": [{"resource": {"attributes": []}, "scopeMetrics": [scope]}]}) + "\n"


def nanoseconds(started: str) -> int:
    """Since 1970; 0 for what is no time."""
    return int((instant(started) or 0) * 1e9)


_OTLP = "opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"


def push_prometheus(url: str, every: Sequence[Series]) -> None:
    """The newest time of each series to a push gateway, by Prometheus' own client."""
    if "://" in url and not url.startswith(_HTTP):
        raise UsageError(f"--push {url}: a push gateway has an address that begins with http:// or https://")
    client = _client("prometheus_client", "--push", "prometheus-client")
    registry = client.CollectorRegistry()
    gauge = client.Gauge(NAME, HELP, ["machine", "collective", "type", "ranks", "bytes"], registry=registry)
    for each in every:
        gauge.labels(**labels(each)).set(each.runs[-1].time_us * 1e-6)
    try:
        # A gateway replaces the whole group: hosts that push their own runs must not replace each other's.
        group = {"instance": socket.gethostname()}
        client.push_to_gateway(url, job="busbw", registry=registry, grouping_key=group, timeout=PUSH_S)
    except (OSError, ValueError) as problem:
        raise UserError(f"the push gateway {url} took nothing: {getattr(problem, 'reason', problem)}") from None


def push_otlp(url: str, every: Sequence[Series]) -> None:
    """Every run of each series to a receiver of OTLP over HTTP, by OpenTelemetry's own exporter."""
    if not url.startswith(_HTTP):
        raise UsageError(f"--push-otlp {url}: a receiver has an address that begins with http:// or https://")
    told = ("--push-otlp", _OTLP)
    exporting = _client("opentelemetry.exporter.otlp.proto.http.metric_exporter", *told)
    data = _client("opentelemetry.sdk.metrics.export", *told)
    resources = _client("opentelemetry.sdk.resources", *told)
    scopes = _client("opentelemetry.sdk.util.instrumentation", *told)
    points = [data.NumberDataPoint(labels(each), 0, nanoseconds(seen.started), seen.time_us * 1e-6)
              for each in every for seen in each.runs]  # fmt: skip
    metric = data.Metric("busbw.time", "Time of one call.", "s", data.Gauge(points))
    scope = data.ScopeMetrics(scopes.InstrumentationScope("busbw"), [metric], "")
    whole = data.MetricsData([data.ResourceMetrics(resources.Resource({"service.name": "busbw"}), [scope], "")])
    result: Any = None
    try:
        exporter = exporting.OTLPMetricExporter(endpoint=url, timeout=PUSH_S)
        result = exporter.export(whole, timeout_millis=PUSH_S * 1000)
        exporter.shutdown()
    except (OSError, ValueError) as problem:
        raise UserError(f"the receiver {url} took nothing: {problem}") from None
    if result is not data.MetricExportResult.SUCCESS:
        raise UserError(f"the receiver {url} took nothing; its address ends in /v1/metrics as a rule")


def _client(name: str, option: str, packages: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise PackageError(option, packages, "--export needs nothing") from None
