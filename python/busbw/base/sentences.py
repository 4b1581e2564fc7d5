"""What a sentence may say of what it quotes: no character that acts on a terminal, and no more than a person reads.

Names, lines and values in it come from files, programs and the network. The engine's half is engine/core/visible.h;
both follow the same rule.
"""

from __future__ import annotations

MOST_CHARACTERS = 1500
"""Of a line of a sentence."""
MOST_LINES = 20
_TAIL, _GAP = 300, 100

# Cc: ESC, BEL, C1 (an 8-bit CSI or OSC); Cf: marks that turn the direction of writing, or join and hide;
# Cs: halves of a pair; Zl, Zp: ends of lines that are no newline.
_SHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def visible(text: str) -> str:
    """The text with every character that could act on a terminal spelled out: `\\x1b`, `\\u202e`."""
    if text.isascii() and text.isprintable():
        return text
    import unicodedata

    category = unicodedata.category
    return "".join(_spelled(c) if c not in "\n\t" and category(c) in _SHOWN else c for c in text)


def _spelled(c: str) -> str:
    """As Python and, from 0x7f on, JSON spell it: what a JSON text has raw stays JSON."""
    number = ord(c)
    return f"\\x{number:02x}" if number < 0x7F else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def bounded_sentence(sentence: str) -> str:
    """The sentence, visible, with `...` for the middle of a long line and for lines beyond the twentieth."""
    lines = sentence.split("\n", MOST_LINES)
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = ["..."]
    return "\n".join(_short(visible(_short(line))) for line in lines)


def _short(line: str) -> str:
    if len(line) <= MOST_CHARACTERS:
        return line
    return f"{line[: MOST_CHARACTERS - _TAIL - _GAP]} ... {line[-_TAIL:]}"
