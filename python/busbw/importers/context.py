"""What stands around the results: headings, the command or script above them, settings, and NCCL's own messages."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache

from busbw.base.acting import acts
from busbw.base.secrets import hide, hide_random, shortened
from busbw.importers.shape import expanded, ranks_of_command
from busbw.importers.values import collective_named
from busbw.records import Collective, Placement

MAX_BLOCK_LINES = 400
ABOVE = 14
"""Lines above a table among which its title is looked for."""
MAX_COMMAND = 4000

_NAMED = re.compile(r"[A-Z][A-Za-z0-9_]{2,80}")
_ASSIGNMENT = re.compile(r"""(?<![\w$])([A-Z][A-Z0-9_]{2,80})=("[^"\n]{0,400}"|'[^'\n]{0,400}'|[^\s;&|)"']{0,400})""")
_PROGRAM = re.compile(
    r"\b([a-z_]{3,20})_perf(?:_mpi)?\b|\b(all_?reduce|all_?gather)_bench\b|\bosu_([a-z_]{3,30})\b|communication/(\w{3,20})\.py"
    r"|\b([a-z_]{3,20})_test(?= +-[a-z] )|\bIMB-[A-Z0-9]{2,6}\b|\bucc_perftest\b|\bcomms\.py\b"
)
_MSCCLPP_PROGRAM = re.compile(r"\b([a-z]{3,15})_test_perf\b")
SIGNS = (
    "_perf",
    "_bench",
    "osu_",
    "communication/",
    "nccl.conf",
    "Standard_N",
    "IMB-",
    "ucc_perf",
    "comms.py",
    "_test -",
)
"""One of these is in every line that a block is read for."""
_CONCLUDED = "# Collective test concluded: "
_SETS = re.compile(r"\s*(?:export\s+|setenv\s+|set\s+)?[A-Z][A-Z0-9_]*=\S*\s*$|\s*export\s")
_LAUNCHES = re.compile(r"\s*(?:[$+] )?(?:srun|mpirun|mpiexec|torchrun)\b")
_PROMPT = re.compile(
    r"\s*#\s+(?:\S{0,80}=\S{0,80}\s+)*(?:\S{0,200}/)?(?:srun|mpirun|mpiexec|torchrun|\w{1,40}_(?:perf|test))\s"
)
_HEADING = re.compile(r"(#{1,6})\s+(\S.*)")
_REMOVED = re.compile(
    r"\b(?:comment(?:ing)?\s+out|without|unset(?:ting)?|disabl\w+|remov\w+)\s+`?(?P<name>[A-Z]+_[A-Z0-9_]+)", re.I
)
_VM_SIZE = re.compile(r"\bStandard_N[A-Za-z0-9_]{3,30}\b")
_SHORT_SIZE = re.compile(r"(?<![A-Za-z0-9])(nc24|nc48|nc96|ndm|nd)(?:r|s|rs|sr|ads|asr|amsr)?_?v4(?![A-Za-z0-9])", re.I)
_LONG_NAMES = {
    "nc24": "Standard_NC24ads_A100_v4", "nc48": "Standard_NC48ads_A100_v4", "nc96": "Standard_NC96ads_A100_v4",
    "nd": "Standard_ND96asr_v4", "ndm": "Standard_ND96amsr_A100_v4",
}  # fmt: skip


def is_kept(name: str) -> bool:
    """Whether an environment variable matters to a measurement and cannot hold a secret."""
    return _NAMED.fullmatch(name) is not None and acts(name)


def without_secrets(text: str) -> str:
    """A command with the values of what could be a secret replaced."""
    return hide(text)


@lru_cache(maxsize=256)
def machine_named(text: str | None) -> str | None:
    """The Azure VM size that a text names, in short (nc48v4) or in full."""
    if not text:
        return None
    full = _VM_SIZE.search(text)
    if full:
        return full[0]
    short = _SHORT_SIZE.search(text)
    return _LONG_NAMES[short[1].lower()] if short else None


@dataclass(frozen=True)
class Command:
    """A command or script that runs a benchmark, and what it says about the run."""

    text: str
    tool: str = "nccl-tests"
    collective: Collective | None = None
    environment: dict[str, str] = field(default_factory=dict)
    ranks: int | None = None
    machine: str | None = None
    library_path: str | None = None


def read_command(lines: list[str]) -> Command | None:
    """What a block of shell says about a benchmark that it runs; None where it runs none."""
    statements = _statements(lines)
    text = "\n".join(statements)
    program = _MSCCLPP_PROGRAM.search(text) or _PROGRAM.search(text)
    if program is None:
        # Root's prompt looks like a comment; a command that is commented out does not stand alone.
        prompts = [line.strip()[1:] for line in lines if _PROMPT.match(line)]
        return read_command(prompts) if prompts else None
    running = [each for each in statements if not _SETS.match(each) and _is_program(each)]
    # Where a variable names the program, the launcher's line is the one that runs it.
    running = running or [each for each in statements if _LAUNCHES.match(each)] or statements
    command = running[-1]
    program = _MSCCLPP_PROGRAM.search(command) or _PROGRAM.search(command) or program
    exported = "\n".join(each for each in statements if _SETS.match(each))
    assigned = {name: value.strip("\"'") for name, value in _ASSIGNMENT.findall(f"{exported}\n{command}")}
    variables = {name: value.strip("\"'") for name, value in _ASSIGNMENT.findall(text)}
    directives = "\n".join(each for each in statements if each.startswith("#"))
    return Command(
        text=without_secrets(command.strip().removeprefix("$ ").removeprefix("+ ")[:MAX_COMMAND]),
        tool="mscclpp-test" if _MSCCLPP_PROGRAM.search(command) else "nccl-tests",
        collective=next((collective_named(group) for group in program.groups() if group), None),
        environment={
            name: hide_random(value) for name, value in assigned.items() if is_kept(name) and name != "NCCL_TESTS_EXE"
        },
        ranks=ranks_of_command(expanded(command, variables, directives), directives),
        machine=machine_named("\n".join(lines)),
        library_path=assigned["LD_PRELOAD"] if "libnccl" in assigned.get("LD_PRELOAD", "") else None,
    )


def _is_program(statement: str) -> bool:
    return bool(_MSCCLPP_PROGRAM.search(statement) or _PROGRAM.search(statement))


def _statements(lines: list[str]) -> list[str]:
    """Lines with continuations joined and comments dropped; batch directives stay, they say where and how many."""
    joined: list[str] = []
    open_line = ""
    for line in lines:
        stripped = line.strip()
        if stripped.startswith("#") and not stripped.startswith(("#SBATCH", "#PBS")) and not open_line:
            continue
        open_line += stripped.removesuffix("\\") + (" " if stripped.endswith("\\") else "")
        if stripped.endswith("\\"):
            continue
        if open_line:
            joined.append(open_line)
        open_line = ""
    return [*joined, open_line] if open_line else joined


@dataclass(frozen=True)
class Surroundings:
    """The context of one sweep, as of the line where it starts."""

    heading: str | None
    command: Command | None
    environment: dict[str, str]
    machine: str | None
    heading_machine: str | None
    placement: Placement | None
    library_versions: dict[str, str]
    file: str = ""
    """The name of the file that is read."""
    commands: dict[str, Command] = field(default_factory=dict)
    """By tool: the last command that runs it, for tables that hold results of several."""

    def of_tool(self, tool: str) -> Surroundings:
        """The same with the command that runs `tool`, and none where the page shows none."""
        command = self.commands.get(tool)
        if command is self.command:
            return self
        inherited = self.command.environment if self.command else {}
        kept = {name: value for name, value in self.environment.items() if inherited.get(name) != value}
        return replace(self, command=command, environment={**kept, **(command.environment if command else {})})


class Document:
    """Follows headings and code blocks; in a plain log only commands and settings."""

    def __init__(self, is_markdown: bool, file: str = "") -> None:
        self.is_markdown = is_markdown
        self.file = file
        self.fenced = False
        self.placement: Placement | None = None
        self.library_versions: dict[str, str] = {}
        self._headings: list[tuple[int, str]] = []
        self._block: list[str] = []
        self._said: list[str] = []
        self._unread = False
        self._command: tuple[int, Command] | None = None
        self._commands: dict[str, tuple[int, Command]] = {}
        self._settings: tuple[int, dict[str, str]] | None = None
        self._machine: str | None = None
        self._last: tuple[tuple[object, ...], Surroundings] | None = None

    def feed(self, line: str) -> None:
        """Take one line that is no result."""
        if line.startswith(_CONCLUDED):
            return  # it ends a sweep and is no command; all that went before would be read again for each
        if self.is_markdown and line.lstrip().startswith("```"):
            self._close_block()
            self.fenced = not self.fenced
            return
        if self.is_markdown and not self.fenced:
            self._prose(line)
            return
        if not self._unread:
            for sign in SIGNS:
                if sign in line:
                    self._unread = True
                    break
        self.pass_by(line)

    def above(self) -> list[str]:
        """The last few lines of text before this place, the nearest last."""
        lines = self._said if self.is_markdown and not self.fenced else self._block[-ABOVE:]
        return [shortened(line.strip(), 300) for line in lines if line.strip(" \t-=#*|+")]

    def pass_by(self, line: str) -> None:
        """A line that no sign stands in: a command that follows or went before may go on here."""
        if not self.is_markdown or len(self._block) < MAX_BLOCK_LINES:
            self._block.append(line[:MAX_COMMAND])
            self._forget_old()

    def pass_by_all(self, lines: list[str]) -> None:
        """As `pass_by`, for many lines of a plain log."""
        self._block += [line[:MAX_COMMAND] for line in lines[-MAX_BLOCK_LINES:]]
        self._forget_old()

    def _forget_old(self) -> None:
        """Only the last lines are kept; now and then, since a list is slow to shorten at its start."""
        if len(self._block) > 2 * MAX_BLOCK_LINES:
            del self._block[:-MAX_BLOCK_LINES]

    @property
    def lines_kept(self) -> int:
        """How many of the last lines are in memory."""
        return len(self._block)

    def standing(self) -> tuple[object, ...]:
        """What later lines depend on."""
        return (
            self.placement, self.library_versions, self._headings, self._block[-MAX_BLOCK_LINES:], self._said,
            self._unread, self._command, self._commands, self._settings, self._machine, self.fenced,
        )  # fmt: skip

    def _prose(self, line: str) -> None:
        if line.strip():
            self._said = [*self._said[1 - ABOVE :], shortened(line, 300)]
        heading = _HEADING.match(line)
        if heading:
            self._enter(len(heading[1]), heading[2].strip())
            return
        if re.search(r"\breported? in-place\b|\bin-place numbers\b", line):
            self.placement = "in_place"
        version = re.search(r"\b(NCCL|RCCL|MSCCL\+\+|MSCCL) version (\d+\.\d+[\w.+]*[\w])", line)
        if version and len(self.library_versions) < 20:
            self.library_versions[version[1]] = version[2]

    def _enter(self, level: int, text: str) -> None:
        while self._headings and self._headings[-1][0] >= level:
            self._headings.pop()
        self._headings.append((level, shortened(text, 300)))
        if self._command and _ends(level, self._command[0]):
            self._command = None
        self._commands = {tool: each for tool, each in self._commands.items() if not _ends(level, each[0])}
        if self._settings and _ends(level, self._settings[0]):
            self._settings = None

    @property
    def level(self) -> int:
        """Level of the innermost heading."""
        return self._headings[-1][0] if self._headings else 0

    def _close_block(self) -> None:
        self._read_block()
        self._block = []

    def _read_block(self) -> None:
        # A job's log may hold thousands of sweeps with other lines between them: read only what can hold a command.
        if not self._unread:
            return
        self._unread = False
        block = self._block[-MAX_BLOCK_LINES:]
        command = read_command(block) if block else None
        if command:
            self._command = self._commands[command.tool] = (self.level, command)
        text = "\n".join(block)
        self._machine = machine_named(text) or self._machine if _VM_SIZE.search(text) else self._machine
        if "nccl.conf" in text:
            found = {
                name: hide_random(value.strip("\"'")) for name, value in _ASSIGNMENT.findall(text) if is_kept(name)
            }
            if found:
                self._settings = (self.level, found)

    def here(self) -> Surroundings:
        """The context of a sweep that starts now; the sweeps of a plain log share one while nothing changes it."""
        self._read_block()
        state = (self._command, self._settings, self._machine, self.placement, len(self.library_versions),
                 tuple(self._headings), tuple(self._commands.values()))  # fmt: skip
        if self._last is None or self._last[0] != state:
            self._last = (state, self._made())
        return self._last[1]

    def _made(self) -> Surroundings:
        command = self._command[1] if self._command else None
        environment = dict(self._settings[1]) if self._settings else {}
        if command:
            environment.update(command.environment)
        for _, text in self._headings:
            for removed in _REMOVED.finditer(text):
                environment.pop(removed["name"], None)
        headings = [text for _, text in self._headings]
        return Surroundings(
            heading=" / ".join(headings)[:600] or None,
            command=command,
            environment=environment,
            machine=(command.machine if command else None) or self._machine,
            heading_machine=next((found for text in reversed(headings) if (found := machine_named(text))), None),
            placement=self.placement,
            library_versions=dict(self.library_versions),
            file=self.file,
            commands={tool: command for tool, (_, command) in self._commands.items()},
        )


def _ends(level: int, found_at: int) -> bool:
    """Whether a heading ends what was said below another one.

    A command or setting stands for the small headings beside its own too ("with", "without"), but chapters are apart.
    """
    return level < found_at or level == found_at <= 2
