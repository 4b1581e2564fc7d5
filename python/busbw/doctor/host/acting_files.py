"""Files that act on a collective besides nccl.conf: what their lines set, and the digest of others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from busbw.base.acting import conf_paths, digests, read_acting, settings_of
from busbw.base.secrets import hide

MOST = 200


def acting_files(
    environ: Mapping[str, str], root: Path = Path("/"), by_conf: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Each setting of such a file as "ucx.conf UCX_TLS", and the start of the SHA-256 of others as "file of NAME".

    `by_conf` are variables that an nccl.conf sets where the environment does not.
    """
    return dict(_all(environ, root, by_conf or {}))


def _all(environ: Mapping[str, str], root: Path, by_conf: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield from digests({**by_conf, **environ}, root)
    for conf, path in conf_paths(environ):
        data = read_acting(path, root)
        if data and conf.endswith(".conf"):
            lines = {name: value for _, name, value in settings_of(data.decode("utf-8", "replace"))}
            for name, value in list(lines.items())[:MOST]:
                yield f"{conf.rpartition('/')[2]} {name}", hide(f"{name}={value}").partition("=")[2][:MOST] or "(empty)"
        elif data:
            yield f"file {conf}", hashlib.sha256(data).hexdigest()[:12]
