"""What people put above a launcher: shells, timeout, nohup, pseudo-terminals, programs that start sessions."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

from kill_launchers import Launcher

MARK = "BUSBW_KILL_TRIAL"
OF_A_RANK = frozenset({"KILL", "TERM", "INT", "HUP", "STOP", "LAUNCHER-TERM", "ALL-KILL"})
OF_PROCESS_1 = frozenset({"KILL", "STOP", "ALL-KILL"})  # it gets no other signal before it asks for them
OF_A_SHELL = OF_A_RANK | {"GROUP-INT", "GROUP-HUP", "SHELL-KILL", "SHELL-HUP"}
_IN_A_SESSION = "import subprocess, sys; sys.exit(subprocess.Popen(sys.argv[1:], start_new_session=True).wait())"
_BELOW_PYTHON = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"


@dataclass(frozen=True)
class Shape:
    """A way to write a launcher's line, what may hit it, and what it outlives by design."""

    name: str
    wrapped: Callable[[str], str]
    hits: frozenset[str] = OF_A_SHELL
    spared: tuple[str, ...] = ()  # programs that are not hit; "shell": the outermost one
    needs: str = ""


def in_tmux(line: str) -> str:
    """A pane of a server of its own; the shell that asked for it waits until its command has ended."""
    tmux = 'tmux -S "$TMPDIR/tmux" -f /dev/null'
    inside = f'{line} >"$TMPDIR/said" 2>&1; echo $? >"$TMPDIR/code"'
    return (
        f"{tmux} new-session -d {shlex.quote(inside)}; while {tmux} has-session 2>/dev/null; do sleep 0.1; done; "
        'cat "$TMPDIR/said"; exit $(cat "$TMPDIR/code")'
    )


def kept() -> str:
    """What is given to a program whose environment is empty."""
    names = (MARK, "PATH", "BUSBW_ENGINE", "PYTHONPATH", "TMPDIR", "BUSBW_RUNS", "SLURM_CONF",
             "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")  # fmt: skip
    return " ".join(f'{name}="${name}"' for name in names)


SHAPES = (
    Shape("sh-true", lambda line: f"sh -c {shlex.quote(f'{line}; code=$?; true; exit $code')}"),
    Shape("timeout", lambda line: f"timeout 300 {line}", OF_A_SHELL - {"GROUP-INT"}),
    Shape("timeout-foreground", lambda line: f"timeout --foreground 300 {line}"),
    Shape("nohup", lambda line: f"nohup {line}", OF_A_RANK - {"HUP"}, ("shell",)),
    Shape("setsid", lambda line: f"setsid -w {line}", OF_A_RANK, ("shell", "setsid")),
    Shape("script", lambda line: f"script -qec {shlex.quote(line)} /dev/null", OF_A_RANK - {"HUP"}, ("shell",),
          "script"),
    Shape("python", lambda line: f"{sys.executable} -c {shlex.quote(_BELOW_PYTHON)} {line}"),
    Shape("new-session", lambda line: f"{sys.executable} -c {shlex.quote(_IN_A_SESSION)} {line}", OF_A_RANK,
          ("shell", "python")),
    Shape("env-i", lambda line: f"env -i {kept()} {line}"),
    Shape("pipe", lambda line: f"{line} 2>&1 | cat; exit ${{PIPESTATUS[0]}}", spared=("cat",)),
    Shape("background", lambda line: f"{line} & wait $!", OF_A_SHELL - {"GROUP-INT", "INT"}),
    Shape("subshells", lambda line: f"( ( {line}; exit $? ); exit $? )"),
    # What is below unshare knows nobody outside of its namespace.
    Shape("pid-namespace", lambda line: f"unshare -pf --mount-proc {line}", OF_PROCESS_1, ("shell", "unshare"),
          "root"),
    Shape("namespace-shell", lambda line: f"unshare -pf --mount-proc sh -c {shlex.quote(f'{line}; exit $?')}",
          OF_PROCESS_1, ("shell", "unshare"), "root"),
    Shape("kill-child", lambda line: f"unshare -pf --kill-child --mount-proc {line}", OF_PROCESS_1, ("shell",),
          "root"),
    Shape("few-files", lambda line: f"(ulimit -n 64; {line})"),
    Shape("xargs", lambda line: f"echo 1 | xargs -I% {line}"),
    Shape("make", lambda line: f"printf 'all:\\n\\t@%s\\n' {shlex.quote(line)} | make -f - all", needs="make"),
    Shape("perl", lambda line: f"perl -e 'exit(system(@ARGV) >> 8)' {line}", needs="perl"),
    Shape("awk", lambda line: f"awk 'BEGIN {{ exit system(ARGV[1]) }}' {shlex.quote(line)}", needs="awk"),
    Shape("find", lambda line: f"find /dev/null -exec {line} ';'", needs="find"),
    Shape("flock", lambda line: f'flock "$TMPDIR" {line}', needs="flock"),
    Shape("su", lambda line: f"su -p root -c {shlex.quote(line)}", OF_A_RANK, needs="root"),
    Shape("dash-trap", lambda line: f"dash -c {shlex.quote(f'trap : USR1; {line} & wait $!; exit $?')}",
          OF_A_SHELL - {"GROUP-INT", "INT"}, needs="dash"),
    Shape("priorities", lambda line: f"nice -n 1 stdbuf -oL setarch -R {line}", needs="setarch"),
    Shape("tmux", in_tmux, OF_A_RANK, ("shell", "tmux", "sleep", "cat"), "tmux"),
)  # fmt: skip


def shaped(launchers: list[Launcher], names: list[str]) -> list[Launcher]:
    """Each launcher in each of these shapes; none: as it is. What this machine cannot make is left out and said."""
    known = {shape.name: shape for shape in SHAPES}
    made = [] if names else launchers
    for shape in [known[name] for name in (known if names == ["all"] else names)]:
        root = shape.needs == "root"
        if os.getuid() if root else shape.needs and not shutil.which(shape.needs):
            print(f"kill_trials: the shape {shape.name} cannot be made here: left out", flush=True)
            continue
        for each in launchers:
            line, name = shape.wrapped(each.line), f"{each.name}/{shape.name}"
            made.append(replace(each, name=name, line=line, hits=shape.hits, spared=shape.spared))
    return made


WRAPPERS = (
    "sh", "bash", "dash", "timeout", "setsid", "script", "env", "cat", "unshare", "xargs", "make", "python", "python3",
    "tmux", "nohup", "sleep", "perl", "awk", "mawk", "gawk", "find", "flock", "su",
)  # fmt: skip


def program_of(words: str) -> str:
    """The name of the program of a command line."""
    return words.partition(" ")[0].rpartition("/")[2].removesuffix(":")


def is_wrapper(words: str) -> bool:
    """Whether a command line is of something above the launcher."""
    program = program_of(words)
    return program in WRAPPERS and (not program.startswith("python") or words.split()[1:2] == ["-c"])
