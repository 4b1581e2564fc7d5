"""A small stand-in of Azure's management API on loopback, with TLS: keeps what it is given, checks how it is asked."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "token-of-this-test"


class StandIn:
    """What was asked, what is there, and what was wrong with the questions."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.complaints: list[str] = []
        self.there: dict[str, dict[str, Any]] = {}
        self.refuse: dict[str, tuple[int, str]] = {}  # part of a path: status and message
        self.logs: dict[str, bytes] = {}  # of jobs, by file
        self.history: dict[str, Any] = {}  # what the history of a run says of it
        self.steps: list[Any] = []  # done one after the other, each time a job is asked for
        self.refuse_reads = False  # as where a login has expired
        self.ranges: list[str] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def paths(self, method: str) -> list[str]:
        return [path for asked, path in self.asked if asked == method]

    def answer(self, method: str, target: str, headers: Any, body: bytes) -> tuple[int, Any]:
        parts = urlsplit(target)
        path = parts.path.rstrip("/")
        if path == "/metadata/endpoints":
            return 200, [self._cloud()]
        if answer := self._public(path, headers):
            return answer
        self.asked.append((method, path))
        if "api-version" not in parse_qs(parts.query) and not path.startswith("/history/"):
            self.complaints.append(f"{method} {path} names no api-version")
        if refused := self._stranger(method, path, headers):
            return refused
        for part, (status, message) in self.refuse.items():
            if part in path.lower() and method != "GET":
                return status, _error("Refused", message)
        if path.startswith("/history/v1.0/subscriptions/") and path.endswith("/details"):
            return 200, {"runId": path.split("/")[-2], "logFiles": {}, **self.history}
        return self._act(method, path, json.loads(body) if body else {})

    def _stranger(self, method: str, path: str, headers: Any) -> tuple[int, Any] | None:
        """The answer to somebody without a token that counts."""
        if self.refuse_reads:
            return 401, _error("ExpiredAuthenticationToken", "The access token has expired")
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            self.complaints.append(f"{method} {path} brings no token")
            return 401, _error("Unauthorized", "no token")
        return None

    def _public(self, path: str, headers: Any) -> tuple[int, Any] | None:
        """What needs no token: the places of a workspace's services, and logs by their signed addresses."""
        if path == "/discovery":
            return 200, {"api": self.url, "history": self.url}
        if path.startswith("/logs/"):
            data = self.logs.get(path.removeprefix("/logs/"), b"")
            self.ranges.append(headers.get("Range", ""))
            begin = int(headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])
            return (206, data[begin:]) if begin < len(data) else (416, b"")
        return None

    def add_log(self, name: str, text: str) -> None:
        """A log grows; the history of the run names it with a signature."""
        self.logs[name] = self.logs.get(name, b"") + text.encode()
        self.history.setdefault("logFiles", {})[name] = f"{self.url}/logs/{name}?sig=of-this-test"

    def _act(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        key = path.lower()
        if method == "GET" and "/jobs/" in key and self.steps:
            self.steps.pop(0)()
        if "/deployments/" in key and method == "PUT":
            return self._deploy(path, body)
        if method in {"PUT", "PATCH"}:
            self.there[key] = self._resource(path, body)
            return 200, self.there[key]
        if method == "DELETE":
            self.there = {other: kept for other, kept in self.there.items() if not other.startswith(key)}
            return 200, {}
        if method == "POST" and key.endswith("/cancel"):
            self.there[key.removesuffix("/cancel")]["properties"]["status"] = "Canceled"
            return 200, {}
        if key.endswith("/operations"):
            return 200, {"value": []}
        found = self.there.get(key)
        return (200, found) if found else (404, _error("ResourceNotFound", f"{path} was not found"))

    def _resource(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        properties = {**body.get("properties", {}), "provisioningState": "Succeeded"}
        if "/jobs/" in path.lower():
            properties.setdefault("status", "Completed")
        name = path.rsplit("/", 1)[-1]
        return {**body, "id": path, "name": name, "type": "x", "properties": properties}

    def _deploy(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """A workspace arrives as a template with parameters."""
        values = {name: each.get("value") for name, each in body["properties"]["parameters"].items()}
        group = path.lower().split("/providers/")[0]
        workspace = f"{group}/providers/Microsoft.MachineLearningServices/workspaces/{values['workspaceName']}"
        made = {"location": values.get("location"), "tags": values.get("tagValues") or {}}
        made["properties"] = {"discoveryUrl": f"{self.url}/discovery"}
        self.there[workspace.lower()] = self._resource(workspace, made)
        self.there[path.lower()] = {
            "id": path,
            "name": path.rsplit("/", 1)[-1],
            "properties": {"provisioningState": "Succeeded", "duration": "PT1S"},
        }
        return 200, self.there[path.lower()]

    def _cloud(self) -> dict[str, Any]:
        return {
            "name": "StandIn",
            "portal": self.url,
            "resourceManager": self.url + "/",
            "authentication": {"loginEndpoint": self.url, "audiences": [self.url]},
            "suffixes": {"storage": "localhost"},
        }


def _error(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


@contextmanager
def serving(folder: Path) -> Iterator[tuple[StandIn, Path]]:
    """The stand-in, and the certificate that a client has to trust."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subject = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject,
         "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    stand_in = StandIn()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, found = stand_in.answer(self.command, self.path, self.headers, body)
            data = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_PATCH = do_POST = do_DELETE = _handle

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    stand_in.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield stand_in, certificate
    finally:
        server.shutdown()
        server.server_close()
