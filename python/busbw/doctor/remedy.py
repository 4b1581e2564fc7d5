"""How a setting is taken back: as a sentence for people and as a Proof for the experiment."""

from __future__ import annotations

from busbw.doctor.facts import GIVEN
from busbw.doctor.finding import SCRATCH, Evidence, Proof
from busbw.machine.nccl.conf import SYSTEM_CONF, Setting, without_effect
from busbw.machine.nccl.graph_file import EMPTY

NO_CHANNELS = "no-channels.xml"


def without(*settings: Setting) -> Proof:
    """The alternative in which none of these variables has an effect, wherever they are set."""
    neutral: dict[str, str] = {}
    files: dict[str, str] = {}
    copied: dict[str, list[int]] = {}
    for setting in settings:
        places = [(setting.value, setting.origin), *setting.hidden]
        stays = next(((value, origin) for value, origin in places if origin.where == SYSTEM_CONF), None)
        if stays is None:
            # The experiment gives the variant a copy of the user's conf file without these lines.
            for origin in (origin for _, origin in places if origin.conf and origin.line is not None):
                copied.setdefault(origin.where, []).append(origin.line or 0)
        elif setting.name == "NCCL_GRAPH_FILE":
            # An empty value would be an unreadable file; a graph file without channels makes NCCL search.
            neutral[setting.name] = f"{SCRATCH}/{NO_CHANNELS}"
            files[NO_CHANNELS] = EMPTY
        elif (value := without_effect(setting.name, stays[0])) is not None:
            neutral[setting.name] = value
        else:
            line = stays[1].line
            return Proof(
                instruction=f"remove line {line} of {SYSTEM_CONF}, measure, and compare: no value of {setting.name} "
                "is none to NCCL, which always reads that file"
            )
    copies = tuple(f"{path} without {_lines(lines)}" for path, lines in copied.items())
    return Proof(unset=tuple(setting.name for setting in settings), neutral=neutral, files=files, copies=copies)


def _lines(numbers: list[int]) -> str:
    known = sorted(set(numbers))
    shown = ", ".join(map(str, known[:10])) + (", ..." if len(known) > 10 else "")
    return f"line{'s' * (len(known) > 1)} {shown}"


_LOGS = (".log", ".txt", ".out", ".err")


def removal(setting: Setting) -> str:
    """What to do so that the variable is no longer set."""
    origin = setting.origin
    if origin.conf and origin.where.endswith(_LOGS):
        # The file that the log shows is to be changed, and not the log.
        return (
            f"remove {setting.name}={_short(setting.value)} from where the job has it, as line {origin.line} of the "
            "log shows it: /etc/nccl.conf or ~/.nccl.conf of its hosts, or the job's environment"
        )
    if origin.conf:
        return f"remove line {origin.line} of {origin.where} ({setting.name}={_short(setting.value)})"
    if origin.where == "environment":
        return f"unset {setting.name}"
    if origin.where == GIVEN:
        return f"do not set {setting.name} to it"
    return f"remove {setting.name} from where that run got it (its environment or an nccl.conf)"


def evidence(setting: Setting) -> Evidence:
    """The place that sets it."""
    return Evidence(f"{setting.name}={_short(setting.value)}", setting.origin.where, setting.origin.line)


def _short(value: str) -> str:
    return value if len(value) <= 120 else f"{value[:120]}..."
