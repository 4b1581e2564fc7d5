"""Where the record of a run goes, and what the run is called."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from busbw.base.errors import UserError
from busbw.base.files import unwritable

RECORD_NAME = "record.jsonl"
RUNS_VARIABLE = "BUSBW_RUNS"


def runs_directory(chosen: str | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of runs: as chosen, else BUSBW_RUNS, else the user's data folder."""
    if chosen:
        return Path(chosen).absolute()
    if environ.get(RUNS_VARIABLE):
        return Path(environ[RUNS_VARIABLE]).absolute()
    data = Path(environ.get("XDG_DATA_HOME") or "")
    if not data.is_absolute():  # which the rules of the variable tell programs to ignore
        data = Path(environ.get("HOME") or "~").expanduser() / ".local" / "share"
    return data / "busbw" / "runs"


def new_run_id(host: str | None = None, seconds: float | None = None) -> str:
    """An identifier that is unique over hosts and time, sorts by time, and is safe as a file name."""
    name = (socket.gethostname() if host is None else host).split(".")[0]
    safe = "".join(c if c.isalnum() or c == "-" else "-" for c in name) or "host"
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(seconds))
    return f"{stamp}-{safe}-{secrets.token_hex(3)}"


def require_runs(folder: Path) -> None:
    """UserError where no run could be kept there: whoever measures first and keeps then asks before."""
    absolute = folder.absolute()
    above = next(each for each in (absolute, *absolute.parents) if each.exists())
    why = unwritable(above) if above.is_dir() else f"{above} is no folder"
    if why:
        raise UserError(f"runs cannot be kept in {folder} ({why}); name another folder with --runs, or --no-record")


@dataclass(frozen=True)
class RecordChoice:
    """What the user said about the record. `named` is a file of theirs, which the measuring program is told itself."""

    runs: str | None = None
    keep: bool = True
    named: str | None = None


class Destination:
    """The folder of one new run; it disappears again where the engine wrote nothing."""

    def __init__(self, runs: Path, run_id: str) -> None:
        self.folder = runs / run_id
        self.run_id = run_id
        self.record = self.folder / RECORD_NAME

    def create(self) -> None:
        """Make the folder, or say in one sentence why it cannot be made."""
        try:
            self.folder.mkdir(parents=True)
        except OSError as error:
            raise UserError(
                f"the record's folder {self.folder} cannot be made ({error.strerror}); "
                f"choose another with --runs DIR or {RUNS_VARIABLE}, or measure without one: --no-record"
            ) from None

    def discard(self, files: Iterable[Path]) -> None:
        """Remove the files of a launch that left no record; beside a record they show how it came about."""
        if not self._has_record():
            for file in files:
                with suppress(OSError):
                    file.unlink()

    def _has_record(self) -> bool:
        return self.record.is_file() and self.record.stat().st_size > 0

    def close(self) -> bool:
        """Remove the folder if it stayed empty; True where a record was written."""
        if self._has_record():
            return True
        with suppress(OSError):  # somebody else's file beside it: then the folder is theirs too
            self.record.unlink(missing_ok=True)
            self.folder.rmdir()
        return False
