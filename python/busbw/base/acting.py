"""Which variables and files act on a collective: the one table by which records, imports and bundles keep them.

The table is data, in acting_variables.txt; the engine is built from the same file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from busbw.base.errors import UserError
from busbw.base.files import read_start
from busbw.base.secrets import is_secret_name

TABLE = Path(__file__).with_name("acting_variables.txt")
LARGEST = 64 << 20
_MOST = 10_000
_SETS = re.compile(r"[ \t]*([A-Za-z_][\w.]{0,80})[ \t]*=[ \t]*([^\r]{0,1000})")
# What stands before a name of such a file in the environment.
_BEFORE = {"ucx.conf": "", "openmpi": "OMPI_MCA_", ".openmpi": "OMPI_MCA_", ".pmix": "PMIX_MCA_", ".prte": "PRTE_MCA_"}


@cache
def listed(kind: str) -> tuple[str, ...]:
    """The lines of that kind: prefix, name, place, file, conf."""
    words = (line.split() for line in TABLE.read_text(encoding="utf-8").splitlines())
    return tuple(each[1] for each in words if len(each) == 2 and each[0] == kind)


def acts(name: str) -> bool:
    """Whether a variable of this name matters to a measurement and cannot hold a secret."""
    return (name.startswith(listed("prefix")) or name in listed("name")) and not is_secret_name(name)


def belongs_in_record(name: str) -> bool:
    """As `acts`, and what says which rank or job this is."""
    return acts(name) or name in listed("place")


def settings_of(text: str) -> Iterator[tuple[int, str, str]]:
    """The lines `name = value` of ucx.conf or of Open MPI's parameters: number, name and value; the last one counts."""
    for number, line in enumerate(text.split("\n")[:_MOST], 1):
        if found := _SETS.match(line):
            yield number, found[1], found[2].strip()


def digests(settings: Mapping[str, str], root: Path = Path("/")) -> Iterator[tuple[str, str]]:
    """The start of the SHA-256 of each file that a variable names, as "file of NAME"."""
    for name in listed("file"):
        value = settings.get(name, "")
        # The loader searches for a name without a folder in it.
        is_file = value and ("/" in value or not (name.startswith("LD_") or name.endswith("_PLUGIN")))
        if is_file and (data := read_acting(value, root)):
            yield f"file of {name}", hashlib.sha256(data).hexdigest()[:12]


def read_acting(path: str, root: Path = Path("/")) -> bytes:
    """An acting file up to 64 MiB; nothing where it is not there."""
    try:
        return read_start(root / path.lstrip("/") if path.startswith("/") else path, LARGEST)
    except UserError:
        return b""


def conf_paths(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Files that act without a variable, as the table names them and by their path; nccl.conf is not among them."""
    for conf in listed("conf"):
        if environ.get("HOME") or not conf.startswith("~"):
            yield conf, conf.replace("~", environ.get("HOME", ""), 1)


def set_by_others(environ: Mapping[str, str], root: Path = Path("/")) -> dict[str, tuple[str, int]]:
    """Variables that a file of UCX, Open MPI or PMIx sets in their place: the file and its line."""
    found: dict[str, tuple[str, int]] = {}
    for conf, path in conf_paths(environ):
        parts = conf.split("/")
        before = next((said for part, said in _BEFORE.items() if part in parts), None)
        if before is not None:
            for number, name, _ in settings_of(read_acting(path, root).decode("utf-8", "replace")):
                found[before + name] = (path, number)
    return found
