"""Releases of NCCL as files: NVIDIA's published wheels through pip, each kept by its hash, or a folder of files."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from busbw.base.errors import UsageError, UserError
from busbw.base.programs import ask
from busbw.base.secrets import shortened
from busbw.experiment.bisect.library_file import check_machine, sha256_of, unpack
from busbw.experiment.bisect.values import is_early, version_in, version_key, within
from busbw.experiment.factors import Level

PACKAGES: Mapping[str, str] = {"12": "nvidia-nccl-cu12", "13": "nvidia-nccl-cu13"}
"""NVIDIA's packages on PyPI, by the CUDA version that they are built for."""

LIST_S, DOWNLOAD_S = 120.0, 1800.0
MOST_FILES = 10_000
_PATIENCE: Mapping[str, str] = {"PIP_TIMEOUT": "--timeout=10", "PIP_RETRIES": "--retries=2"}
_NO_ANSWER = re.compile(r"WARNING: Retrying \(|Max retries exceeded|ReadTimeoutError|did not answer within")

Pip = Callable[[Sequence[str], float], str]


@dataclass(frozen=True)
class Release:
    """A library, its version, and the SHA-256 of the wheel (or of the file itself) that it came from."""

    version: str
    library: Path
    sha256: str

    @property
    def level(self) -> Level:
        """What an experiment takes."""
        return Level(self.version, library=str(self.library))


def run_pip(words: Sequence[str], limit_s: float) -> str:
    """What pip prints; its own last words where it fails. pip checks every download against the index's hash."""
    # pip's own patience is two minutes with an index that says nothing.
    patience = [part for name, part in _PATIENCE.items() if name not in os.environ]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *patience, *words]
    done = ask(command, limit_s)
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        why = shortened(last[-1].strip(), 200) if last else f"exit code {done.returncode}"
        if "DO NOT MATCH THE HASHES" in done.stderr:
            why = "the wheel that came has another hash than the index names, so that it is not used"
        elif _NO_ANSWER.search(done.stderr):
            why = "the package index does not answer; see whether PIP_INDEX_URL and the proxy are right"
        raise UserError(f"pip {words[0]} failed: {why}; with --from-folder releases come from files that are here")
    return done.stdout


def published(package: str, pip: Pip = run_pip, early: bool = False) -> list[str]:
    """The versions that the index offers for this machine; `early` ones too, such as 2.29.2rc1."""
    text = pip(["index", "versions", *(["--pre"] if early else []), package], LIST_S)
    line = next((line for line in text.splitlines() if line.startswith("Available versions:")), "")
    found = [word for word in re.split(r"[,\s]+", line.partition(":")[2]) if version_in(word) == word]
    if not found:
        raise UserError(f"pip lists no release of {package}")
    return sorted(found, key=version_key)


class Published:
    """The releases of a package, fetched when they are measured, and kept for ever under their hash."""

    def __init__(self, package: str, first: str, last: str, cache: Path, pip: Pip = run_pip) -> None:
        self._package, self._pip = package, pip
        self._cache = cache / package
        early = is_early(first) or is_early(last)
        self.versions = within(published(package, pip, early), first, last, f"what pip lists of {package}")

    def fetch(self, version: str) -> Release:
        """From the cache, where the file is still the one that was put there; else through pip."""
        kept = self._kept(version)
        if kept is not None:
            return kept
        place = self._cache / "downloads" / str(os.getpid())
        try:
            place.mkdir(parents=True, exist_ok=True)
            words = ["download", "--no-deps", "--only-binary", ":all:", "--dest", str(place)]
            self._pip([*words, f"{self._package}=={version}"], DOWNLOAD_S)
            wheels = sorted(place.glob("*.whl"))
            if len(wheels) != 1:
                raise UserError(f"pip left {len(wheels)} wheels of {self._package} {version} where one was expected")
            return self._keep(version, wheels[0])
        except OSError as problem:
            raise UserError(f"{self._cache} cannot be used to keep wheels: {problem.strerror or problem}") from problem
        finally:
            with suppress(OSError):
                for wheel in place.iterdir():
                    wheel.unlink()
                place.rmdir()

    def _kept(self, version: str) -> Release | None:
        with suppress(UserError, OSError, ValueError, KeyError, TypeError):
            said = json.loads((self._cache / f"{version}.json").read_text(encoding="utf-8"))
            library = self._cache / str(said["wheel_sha256"])[:64] / "libnccl.so.2"
            if sha256_of(library) == said["library_sha256"]:
                return Release(version, library, str(said["wheel_sha256"]))
        return None

    def _keep(self, version: str, wheel: Path) -> Release:
        digest = sha256_of(wheel)
        library = unpack(wheel, self._cache / digest)
        said = {"wheel": wheel.name, "wheel_sha256": digest, "library_sha256": sha256_of(library)}
        beside = self._cache / f".{version}.{os.getpid()}"
        beside.write_text(json.dumps(said) + "\n", encoding="utf-8")
        beside.replace(self._cache / f"{version}.json")
        return Release(version, library, digest)


@dataclass(frozen=True)
class Wanted:
    """Which of several wheels of a release in a folder: `machine` is "" where the ranks may run elsewhere."""

    package: str = ""
    machine: str = ""

    def fits(self, path: Path) -> tuple[bool, bool]:
        """Whether it is for this machine, and of the package that was asked for."""
        try:
            if self.machine:
                check_machine(path, self.machine)
        except UserError:
            return False, False
        return True, path.name.startswith(self.package.replace("-", "_") + "-")


class Folder:
    """Releases that lie in a folder: wheels, libnccl.so.2.28.9, or libnccl.so.2 in folders named by their version."""

    def __init__(self, folder: Path, first: str, last: str, cache: Path, wanted: Wanted = Wanted()) -> None:
        self._cache, self._machine = cache, wanted.machine
        self._files = _files_in(folder, wanted)
        self.versions = within(list(self._files), first, last, str(folder))

    def fetch(self, version: str) -> Release:
        """The library itself, or that of a wheel."""
        path = self._files[version]
        if self._machine:
            check_machine(path, self._machine)
        digest = sha256_of(path)
        if path.suffix != ".whl":
            return Release(version, path, digest)
        try:
            return Release(version, unpack(path, self._cache / "folder" / digest), digest)
        except OSError as problem:
            raise UserError(f"{path} cannot be unpacked: {problem.strerror or problem}") from problem


def _files_in(folder: Path, wanted: Wanted) -> dict[str, Path]:
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder of NCCL's wheels or libraries; --from-folder takes one")
    found: dict[str, Path] = {}
    for number, path in enumerate(sorted(folder.rglob("*"))):
        if number > MOST_FILES:
            raise UserError(f"{folder} holds more than {MOST_FILES} files; name one with the releases alone")
        wheel = path.suffix == ".whl" and "nccl" in path.name
        if not wheel and not re.match(r"libnccl.*\.so", path.name):
            continue
        version = version_in(path.name) or next(
            (part for part in map(version_in, reversed(path.relative_to(folder).parts[:-1])) if part), None
        )
        if version and path.is_file():
            other = found.setdefault(version, path)
            if other == path or path.samefile(other):
                continue
            if wanted.fits(other) == wanted.fits(path):
                raise UserError(f"{folder} holds NCCL {version} twice: {other} and {path}; leave one of them")
            found[version] = max(other, path, key=wanted.fits)
    if not found:
        raise UserError(
            f"{folder} holds no release of NCCL; it takes wheels, libnccl.so.2.28.9, or 2.28.9/libnccl.so.2"
        )
    return found


def default_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Where wheels are kept."""
    base = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".cache")
    return Path(base) / "busbw" / "nccl"
