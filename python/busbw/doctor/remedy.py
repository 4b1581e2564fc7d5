"""How a setting is taken back: as a sentence for people and as a Proof for the experiment."""

from __future__ import annotations

from busbw.doctor.facts import GIVEN
from busbw.doctor.finding import SCRATCH, Evidence, Proof
from busbw.machine.nccl.conf import Setting
from busbw.machine.nccl.graph_file import EMPTY

NO_CHANNELS = "no-channels.xml"


def without(*settings: Setting) -> Proof:
    """The alternative in which none of these variables has an effect, wherever they are set."""
    neutral: dict[str, str] = {}
    files: dict[str, str] = {}
    for setting in settings:
        if not (setting.origin.conf or any(origin.conf for _, origin in setting.hidden)):
            continue
        if setting.name == "NCCL_GRAPH_FILE":
            # An empty value would be an unreadable file; a graph file without channels makes NCCL search.
            neutral[setting.name] = f"{SCRATCH}/{NO_CHANNELS}"
            files[NO_CHANNELS] = EMPTY
        else:
            # NCCL takes an empty number, list or name for "not set" (src/misc/param.cc, src/graph/tuning.cc).
            neutral[setting.name] = ""
    return Proof(unset=tuple(setting.name for setting in settings), neutral=neutral, files=files)


def removal(setting: Setting) -> str:
    """What to do so that the variable is no longer set."""
    origin = setting.origin
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
