"""An SQLite index over the kept runs: brought up to date from the folders at every use.

The folders are the truth. A run whose record or labels changed (by size or time of change) is read again; one that is
gone is dropped. A broken index is thrown away. Where the folder cannot be written (somebody else's runs) or its file
system cannot lock, the index is made in memory for this one use.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from busbw.base.errors import UsageError, UserError
from busbw.base.terminal import START_OF_LINE
from busbw.runs.destination import RECORD_NAME
from busbw.runs.plain import MOST_BYTES, read_lines
from busbw.runs.store import Labels, read_labels, record_states

INDEX_NAME = ".index.sqlite"
_WAIT_S = 30.0
_PROGRESS_FROM = 500
MOST_ENTERED = 40_000
"""Runs that one command enters, about 100 us each; the newest come first, and the next command goes on."""
MOST_BYTES_ENTERED = 64 << 20
"""Of their records together, about 50 ms for each MiB; at least one run is entered."""

_TABLES = """
CREATE TABLE runs (
  run TEXT PRIMARY KEY, started TEXT, finished TEXT, outcome TEXT, tool TEXT, tool_version TEXT, library TEXT,
  library_version TEXT, machine TEXT, hosts TEXT, launcher TEXT, ranks INTEGER, collectives TEXT, cases INTEGER,
  peak_busbw_GBps REAL, wrong REAL, note TEXT, problem TEXT, id TEXT,
  driver TEXT, kernel TEXT, hardware TEXT
) WITHOUT ROWID;
CREATE TABLE cases (
  run TEXT, "case" INTEGER, cycle INTEGER, collective TEXT, type TEXT, op TEXT, root INTEGER, ranks INTEGER,
  bytes INTEGER, placement TEXT, outcome TEXT, time_us REAL, algbw_GBps REAL, busbw_GBps REAL, wrong REAL, variant TEXT,
  impossible TEXT
);
CREATE INDEX cases_of_run ON cases(run);
CREATE TABLE tags (run TEXT, tag TEXT, PRIMARY KEY (run, tag)) WITHOUT ROWID;
CREATE TABLE environment (run TEXT, name TEXT, value TEXT, PRIMARY KEY (run, name)) WITHOUT ROWID;
CREATE TABLE place (inode INTEGER);
CREATE TABLE files (run TEXT PRIMARY KEY, record_ns INTEGER, record_size INTEGER, labels_ns INTEGER) WITHOUT ROWID;
"""
_CASE_KEYS = (
    "case", "cycle", "collective", "type", "op", "root", "ranks", "bytes", "placement", "outcome", "time_us",
    "algbw_GBps", "busbw_GBps", "wrong", "variant",
)  # fmt: skip
# What a SELECT of a user may do; everything else (writing, attaching files, pragmas) is denied.
MAX_QUERY_SECONDS = 600.0
_ALLOWED = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)  # fmt: skip


@dataclass(frozen=True)
class Changed:
    """What an update did."""

    read: int = 0
    dropped: int = 0


# SQLite quotes a damaged schema in its complaint, and Python cannot decode the complaint.
_DAMAGED = (sqlite3.DatabaseError, UnicodeDecodeError)


class Index:
    """A connection to an index that is up to date as of its opening."""

    def __init__(self, root: Path, *, rebuild: bool = False, progress: bool = True, enters_all: bool = False) -> None:
        self.root = root
        self._enters_all = enters_all
        self.changed = Changed()
        self._progress = progress and sys.stderr.isatty()
        self.connection = self._open(rebuild=rebuild)

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of one of our own queries."""
        values = [_scalar(value) for value in values]
        try:
            return self.connection.execute(query, values).fetchall()
        except sqlite3.OperationalError as problem:
            raise UserError(f"the index of {self.root} cannot be read: {problem}") from problem
        except _DAMAGED:
            # A damaged page, which only those who ask for its rows meet.
            self.connection.close()
            self.connection = self._open(rebuild=True)
            return self.connection.execute(query, values).fetchall()

    def select(self, query: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """Column names and rows of a user's query, which can read and nothing else."""
        self.connection.execute("PRAGMA query_only = ON")
        self.connection.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY
        )
        # SQLite looks neither at the clock nor at signals: the handler gives Python its turn for both.
        deadline = time.monotonic() + MAX_QUERY_SECONDS
        self.connection.set_progress_handler(lambda: time.monotonic() > deadline, 100_000)
        try:
            cursor = self.connection.execute(query)
        except (sqlite3.Error, sqlite3.Warning, ValueError) as problem:
            raise _refusal(problem, deadline) from None
        if cursor.description is None:
            raise UserError("the query returns nothing: only SELECT is answered here")
        return [column[0] for column in cursor.description], _rows(cursor, deadline)

    def _open(self, *, rebuild: bool) -> sqlite3.Connection:
        path = self.root / INDEX_NAME
        # A link would lead SQLite into somebody's other file, and an index of somebody else may say anything.
        if not self.root.is_dir() or not _is_own_file(path):
            return self._updated(_fresh(sqlite3.connect(":memory:")))
        try:
            if rebuild:
                _discard(path)
            try:
                return self._opened(path)
            except sqlite3.OperationalError:
                raise
            except _DAMAGED:
                # Not a database, or a damaged one: the folders know everything that it knew.
                _discard(path)
                return self._opened(path)
        except (OSError, sqlite3.OperationalError):
            return self._updated(_fresh(sqlite3.connect(":memory:")))

    def _opened(self, path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)
        try:
            _prepare(connection)
            return self._updated(_usable(connection, path.stat().st_ino))
        except BaseException:
            connection.close()
            raise

    def _updated(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        known = {run: tuple(state) for run, *state in connection.execute("SELECT * FROM files")}
        current = {
            name: (state.st_mtime_ns, state.st_size, labelled) for name, state, labelled in record_states(self.root)
        }
        stale = [name for name, state in current.items() if known.get(name) != state]
        gone = [name for name in known if name not in current]
        if not stale and not gone:
            return connection
        if not self._enters_all:
            self._leave_out(stale, current)
        # One transaction: a reader sees the index before or after, and a killed update leaves it as it was.
        connection.execute("BEGIN IMMEDIATE")
        try:
            # What was never entered has no rows to forget; another process may have entered it since `known` was read.
            entered = {run for (run,) in connection.execute("SELECT run FROM files")}
            _forget(connection, [name for name in (*gone, *stale) if name in entered])
            for done, name in enumerate(stale, start=1):
                self._tell(done, len(stale))
                _enter(connection, name, self.root / name / RECORD_NAME, current[name])
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        self.changed = Changed(len(stale), len(gone))
        return connection

    @staticmethod
    def _leave_out(stale: list[str], current: Mapping[str, tuple[int, int, int]]) -> None:
        """Of the runs that are to be entered keep the newest, as many as one command enters, and tell of the others."""
        if len(stale) <= MOST_ENTERED and sum(current[name][1] for name in stale) <= MOST_BYTES_ENTERED:
            return
        stale.sort(key=lambda name: current[name][0], reverse=True)
        sizes = accumulate(min(current[name][1], MOST_BYTES) for name in stale)
        most = max(1, min(MOST_ENTERED, sum(size <= MOST_BYTES_ENTERED for size in sizes)))
        if len(stale) > most:
            print(
                f"busbw: {len(stale) - most:,} older runs are not in the index yet and are left out; each "
                "command enters more, `busbw runs index` all of them",
                file=sys.stderr,
            )
            del stale[most:]

    def _tell(self, done: int, total: int) -> None:
        if self._progress and total >= _PROGRESS_FROM and (done % 100 == 0 or done == total):
            told = f"{START_OF_LINE}indexing {done} of {total} runs"
            print(told, end="\n" if done == total else "", file=sys.stderr, flush=True)


def _is_own_file(path: Path) -> bool:
    """Whether there is no index yet, or a plain file of this user that has no other name."""
    try:
        state = path.lstat()
    except OSError:
        return True
    return stat.S_ISREG(state.st_mode) and state.st_uid == os.getuid() and state.st_nlink == 1


def _prepare(connection: sqlite3.Connection) -> None:
    # A rollback journal and no WAL: WAL needs shared memory, which network file systems do not have. What a power cut
    # damages is made again, so there is no reason to wait for the disk.
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("PRAGMA synchronous = OFF")


def _usable(connection: sqlite3.Connection, inode: int) -> sqlite3.Connection:
    """The connection, its tables made where the file is new. DatabaseError for an index that was not made here.

    One that came with the folder, from an archive or another machine, has another inode: whatever it says may be false,
    and its views and triggers would run as ours. Copying an index costs no more than making it again.
    """
    if not _objects(connection):
        connection.execute("BEGIN IMMEDIATE")
        # Another process may have made it while this one waited for the lock.
        if not _objects(connection):
            _create(connection)
            connection.execute("INSERT INTO place VALUES (?)", (inode,))
        connection.commit()
    if _objects(connection) != _our_objects() or connection.execute("SELECT inode FROM place").fetchall() != [(inode,)]:
        raise sqlite3.DatabaseError("an index of another layout or place")
    return connection


def _objects(connection: sqlite3.Connection) -> list[Any]:
    return connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()


@cache
def _our_objects() -> list[Any]:
    connection = _fresh(sqlite3.connect(":memory:"))
    try:
        return _objects(connection)
    finally:
        connection.close()


def _fresh(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.isolation_level = None
    _create(connection)
    return connection


def _create(connection: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";"):
        if statement.strip():
            connection.execute(statement)


def _discard(path: Path) -> None:
    for name in (path, path.with_name(f"{path.name}-journal")):
        name.unlink(missing_ok=True)


def _forget(connection: sqlite3.Connection, names: Sequence[str]) -> None:
    for table in ("runs", "cases", "tags", "environment", "files"):
        connection.executemany(f"DELETE FROM {table} WHERE run = ?", [(name,) for name in names])


@dataclass(frozen=True)
class _Kept:
    """What the index takes from one folder."""

    run: dict[str, Any]
    cases: list[dict[str, Any]]
    end: dict[str, Any]
    labels: Labels
    problem: str | None


def _kept(path: Path, *, size: int, labelled: bool) -> _Kept:
    """A record that cannot be read is entered with what is wrong, so that it is listed and not hidden."""
    lines, problem = read_lines(path, size)
    run = next((line for line in lines if line.get("kind") == "run"), {})
    end = next((line for line in lines if line.get("kind") == "end"), {})
    cases = [line for line in lines if line.get("kind") == "case"]
    if not run and problem is None:
        problem = "no run line"
    return _Kept(run, cases, end, read_labels(path.parent) if labelled else Labels(), problem)


def _enter(connection: sqlite3.Connection, name: str, path: Path, state: tuple[int, int, int]) -> None:
    _, size, labelled = state
    kept = _kept(path, size=size, labelled=labelled != 0)
    tags = dict.fromkeys([*_texts(kept.run.get("tags")), *kept.labels.tags])
    connection.execute(f"INSERT INTO files VALUES ({_marks(4)})", (name, *state))
    connection.execute(f"INSERT INTO runs VALUES ({_marks(22)})", tuple(map(_scalar, _run_row(name, kept))))
    _enter_cases(connection, name, kept.cases)
    if tags:
        connection.executemany("INSERT INTO tags VALUES (?, ?)", [(name, _scalar(tag)) for tag in tags])
    if variables := _dictionary(kept.run.get("environment")).items():
        connection.executemany(
            "INSERT INTO environment VALUES (?, ?, ?)",
            [(name, _scalar(key), _scalar(value)) for key, value in variables],
        )


def _enter_cases(connection: sqlite3.Connection, name: str, cases: list[dict[str, Any]]) -> None:
    """As they are, which is what nearly all cases can be; one by one where SQLite cannot hold a value."""
    insert = f"INSERT INTO cases VALUES ({_marks(2 + len(_CASE_KEYS))})"
    try:
        connection.executemany(insert, [(name, *map(case.get, _CASE_KEYS), _impossible(case)) for case in cases])
    except (sqlite3.Error, OverflowError, ValueError):
        connection.execute("DELETE FROM cases WHERE run = ?", (name,))
        rows = [(name, *(_scalar(case.get(key)) for key in _CASE_KEYS), _scalar(_impossible(case))) for case in cases]
        connection.executemany(insert, rows)


def _impossible(case: dict[str, Any]) -> Any:
    """Why a figure cannot be true, where its record says so."""
    context = case.get("context")
    return context.get("impossible") if isinstance(context, dict) else None


def _run_row(name: str, kept: _Kept) -> tuple[Any, ...]:
    run, cases, end, problem = kept.run, kept.cases, kept.end, kept.problem
    tool, library, system = (_dictionary(run.get(name)) for name in ("tool", "library", "system"))
    ranks = run.get("ranks") if isinstance(run.get("ranks"), list) else []
    hosts = dict.fromkeys(str(rank["host"]) for rank in ranks or [] if isinstance(rank, dict) and "host" in rank)
    collectives = dict.fromkeys(str(case.get("collective")) for case in cases)
    outcome = end.get("outcome") or ("unreadable" if problem else "unfinished")
    return (
        name, _scalar(run.get("started")), _scalar(end.get("finished")), _scalar(outcome), _scalar(tool.get("name")),
        _scalar(tool.get("version")), _scalar(library.get("name")), _scalar(library.get("version")),
        _scalar(run.get("machine")), " ".join(hosts), _scalar(run.get("launcher")), _rank_count(ranks, cases),
        " ".join(collectives), len(cases), _largest(cases, "busbw_GBps"), _largest(cases, "wrong"),
        kept.labels.note, problem,
        _scalar(run.get("run")), _scalar(system.get("driver")), _scalar(system.get("kernel")),
        _scalar(system.get("hardware")),
    )  # fmt: skip


def _rank_count(ranks: Any, cases: list[dict[str, Any]]) -> int | None:
    if ranks:
        return len(ranks)
    known = [case["ranks"] for case in cases if isinstance(case.get("ranks"), int)]
    return max(known, default=None)


def _largest(cases: list[dict[str, Any]], key: str) -> float | None:
    return max((case[key] for case in cases if isinstance(case.get(key), (int, float))), default=None)


def _dictionary(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _scalar(value: Any) -> Any:
    """What SQLite can hold; integers beyond 64 bits and nested values become text."""
    if isinstance(value, bool) or value is None or isinstance(value, float):
        return value
    if isinstance(value, str) and value.isascii():
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    return str(value).encode("utf-8", "replace").decode()


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _rows(cursor: sqlite3.Cursor, deadline: float) -> Iterator[tuple[Any, ...]]:
    try:
        yield from cursor
    except sqlite3.Error as problem:
        raise _refusal(problem, deadline) from None


def _refusal(problem: Exception, deadline: float) -> BaseException:
    text = str(problem)
    if "not authorized" in text or "prohibited" in text or "readonly" in text:
        text = "only SELECT over runs, cases, tags and environment is answered here"
    if text == "interrupted":
        # By the handler of `select`: the time is over, or Ctrl-C was pressed, which sqlite3 keeps to itself.
        if time.monotonic() <= deadline:
            return KeyboardInterrupt()
        return UserError(
            f"the query cannot be answered: it took more than {MAX_QUERY_SECONDS:.0f} s; ask for less at once"
        )
    return UsageError(f"the query cannot be answered: {text}")
