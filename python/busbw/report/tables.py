"""Draws variant tables as text of 80 columns, Markdown, LaTeX, an HTML fragment, and flat rows for CSV and JSON."""

from __future__ import annotations

import csv
import io
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any

from busbw.analysis.units import format_bytes
from busbw.base.text import WIDTH, clean, columns, display_width, paint, sentences, shorten
from busbw.report.variants import Cell, Section, Table

Mark = Callable[[str], str]
_LONGEST = 240
"""Characters of a column's name that are worth their lines."""
BEST = "best of its collective at this size, or not told from it by more than noise"


def size_text(size: int) -> str:
    """Binary units, or decimal ones for a size that is round only in those: 4 GB is not 3.7 GiB."""
    binary = format_bytes(size)
    power = next((n for n in (4, 3, 2, 1) if size >= 1000**n and size % 1000**n == 0), None)
    return f"{size // 1000**power} {' KMGT'[power]}B".replace("KB", "kB") if power and "." in binary else binary


def figure_text(value: float) -> str:
    """Decimals as far as a reader can use them: 13.14, 447.0, 157.91, 16274; nothing that tools print is cut off."""
    if abs(value) >= 10_000:
        return f"{value:.0f}"
    return f"{value:.2f}" if abs(value) < 100 or round(value, 2) == value != round(value, 1) else f"{value:.1f}"


def _digits(table: Table) -> int | None:
    """Rates have two decimals, as tools print them, and more where they are all small: 0.00 says nothing.

    Times spread over too many digits for that.
    """
    if "(us)" in table.quantity:
        return None
    most = max((end for row in table.cells for c in row for end in (c.value, *(c.range or ())) if end), default=1.0)
    return max(4 if "Gbps" in table.quantity else 2, 1 - math.floor(math.log10(most)) if most < 0.1 else 0)


def _value(value: float, digits: int | None) -> str:
    return figure_text(value) if digits is None else f"{value:.{digits}f}"


def factor_text(factor: float) -> str:
    """`x 1.01`, `x 3.91`, `x 12.4`."""
    return f"x {factor:.2f}" if 0.095 <= factor < 9.995 else f"x {factor:.3g}"


def cell_text(cell: Cell, digits: int | None, mark: Mark) -> str:
    """A figure, a range, or a dash."""
    if cell.range is not None:
        return f"{_value(cell.range[0], digits)} to {_value(cell.range[1], digits)}"
    text = "-" if cell.value is None else _value(cell.value, digits)
    return mark(text) if cell.best else text


def _factor(cell: Cell, mark: Mark) -> str:
    if cell.factor is None:
        return "-"
    return mark(factor_text(cell.factor)) if cell.sure else factor_text(cell.factor)


def flat(table: Table, mark: Mark, mark_factor: Mark | None = None) -> tuple[list[str], list[str], list[list[str]]]:
    """The placement over each column, its name, and the rows; a column of factors follows each but the base."""
    over: list[str] = []
    names: list[str] = []
    digits = _digits(table)
    rows: list[list[str]] = [[] for _ in table.sizes]
    for i, head in enumerate(table.heads):
        over.append(head.placement)
        names.append(head.label)
        for row, cells in zip(rows, table.cells, strict=True):
            row.append(cell_text(cells[i], digits, mark))
        if table.factors and not head.base:
            over.append(head.placement)
            names.append("factor")
            for row, cells in zip(rows, table.cells, strict=True):
                row.append(_factor(cells[i], mark_factor or mark))
    return over, names, rows


# Terminal -------------------------------------------------------------------------------------------------------------


def sections_text(sections: Sequence[Section], said: Sequence[Sequence[str]], *, colour: bool = False) -> str:
    """For a terminal of 80 columns: what is said of each section, and as many columns side by side as fit."""
    lines: list[str] = []
    for section, verdicts in zip(sections, said, strict=True):
        lines += [*(paint(line, "bold", colour=colour) for line in textwrap.wrap(clean(section.title), WIDTH)), ""]
        lines += [*sentences(verdicts, bullet=""), *([""] if verdicts else [])]
        for table in section.tables:
            lines += [table.quantity, *_text_table(table, colour=colour), ""]
        lines += [*sentences(section.notes), *([""] if section.notes else [])]
    marked = any(cell.best for section in sections for table in section.tables for row in table.cells for cell in row)
    if marked:
        lines += sentences([f"{BEST}."], bullet="bold: " if colour else "* ")
    lines += sentences(explained(sections), bullet="")
    return "\n".join(lines).rstrip() + "\n"


def explained(sections: Sequence[Section]) -> list[str]:
    """What a factor is, and against which column."""
    bases = dict.fromkeys(
        section.names[section.base]
        for section in sections
        if section.base is not None and any(table.factors for table in section.tables)
    )
    if not bases:
        return []
    said = " or ".join(f"'{clean(base)}'" for base in bases)
    return [f"Factor: speed over that of {said}; marked where the difference is more than noise."]


def _text_table(table: Table, *, colour: bool) -> list[str]:
    over, names, rows = flat(table, lambda text: f"*{text}")
    sizes = [size_text(size) for size in table.sizes]
    split = [_split(shorten(name, _LONGEST), [row[i] for row in rows]) for i, name in enumerate(names)]
    names = [max(parts, key=display_width) for parts in split]
    lines: list[str] = []
    for block in _blocks(over, names, rows, WIDTH - 4 - max(map(len, ("size", *sizes)))):
        tall = max(len(split[i]) for i in block)
        header = [["", *(_line(split[i], at - tall) for i in block)] for at in range(tall)]
        header[-1][0] = "size"
        body = [[size, *(row[i] for i in block)] for size, row in zip(sizes, rows, strict=True)]
        drawn = columns(header[0], [*header[1:], *body])
        if any(over):
            drawn.insert(0, _over([over[i] for i in block], [*header, *body]))
        lines += [f"  {_embolden(line) if colour else line}".rstrip() for line in drawn]
        lines.append("")
    return lines[:-1]


def _split(name: str, cells: Sequence[str]) -> list[str]:
    """The name of a column in lines that are not much wider than its figures."""
    longest = min(max(map(display_width, name.split() or [""])), WIDTH // 2)
    return textwrap.wrap(name, max(longest, 12, *map(display_width, cells)), break_on_hyphens=False) or [""]


def _line(parts: Sequence[str], from_below: int) -> str:
    return parts[from_below] if -from_below <= len(parts) else ""


def _blocks(over: Sequence[str], names: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> Iterator[list[int]]:
    """Columns that fit side by side; a factor stays beside its figure, a placement starts a new block if it must."""
    widths = [max(map(display_width, (name, *(row[i] for row in rows)))) + 2 for i, name in enumerate(names)]
    units: list[list[int]] = []
    for i, name in enumerate(names):
        if name == "factor" and units:
            units[-1].append(i)
        else:
            units.append([i])
    block: list[int] = []
    for number, unit in enumerate(units):
        needed = unit
        if block and over[unit[0]] != over[block[-1]]:
            rest = [i for later in units[number:] for i in later if over[i] == over[unit[0]]]
            needed = rest if sum(widths[i] for i in rest) <= room else unit
        if block and sum(widths[i] for i in (*block, *needed)) > room:
            yield block
            block = []
        block = [*block, *unit]
    yield block


def _over(over: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The placements, each at the left edge of its first column."""
    widths = [max(display_width(row[i]) for row in rows) for i in range(len(rows[0]))]
    line, at = "", widths[0] + 2
    for i, placement in enumerate(over):
        if i == 0 or placement != over[i - 1]:
            line = f"{line:<{at}}{placement}  "
        at += widths[i + 1] + 2
    return line.rstrip()


def _embolden(line: str) -> str:
    """Stars to bold face; a star inside a name is no mark, because marks stand before a digit or a factor."""
    return re.sub(r"\*(x? ?\d[\d.]*)", lambda found: paint(found[1], "bold", colour=True) + " ", line)


# Documents ------------------------------------------------------------------------------------------------------------


def sections_markdown(sections: Sequence[Section], said: Sequence[Sequence[str]]) -> str:
    """A heading a section, its verdicts, a table a quantity: bold marks the best; what differs stands below."""
    lines: list[str] = []
    for section, verdicts in zip(sections, said, strict=True):
        lines += [f"### {_markdown(section.title)}", "", *(line for each in verdicts for line in (_markdown(each), ""))]
        for table in section.tables:
            over, names, rows = flat(table, lambda text: f"**{text}**")
            labels = _beside(over, names)
            lines += [f"**{table.quantity}**", ""]
            lines.append("| " + " | ".join(["Message size", *(_markdown(label) for label in labels)]) + " |")
            lines.append("|" + ":---:|" * (len(labels) + 1))
            for size, row in zip(table.sizes, rows, strict=True):
                lines.append("| " + " | ".join([size_text(size), *row]) + " |")
            lines.append("")
        lines += [*(f"- {_markdown(note)}" for note in section.notes), *([""] if section.notes else [])]
    lines += [_markdown(text) for text in explained(sections)]
    return "\n".join(lines).rstrip() + "\n"


def _beside(over: Sequence[str], names: Sequence[str]) -> list[str]:
    """The placement beside the name, for formats in which no cell spans two columns."""
    return [f"{name}, {placement}" if placement else name for placement, name in zip(over, names, strict=True)]


def _markdown(text: str) -> str:
    """A name as text: no cell border, no tag, no link, no emphasis."""
    escaped = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{c}" if c in "\\`*_[]|#!" else c for c in escaped)


def sections_latex(sections: Sequence[Section]) -> str:
    """A table environment for each table, of plain LaTeX: no package is needed."""
    lines = ["% Made by busbw; needs no package."]
    for section in sections:
        for table in section.tables:
            over, names, rows = flat(table, lambda text: f"\\textbf{{{text}}}")
            lines += ["\\begin{table}", "\\centering", f"\\caption{{{_latex(f'{section.title}: {table.quantity}')}}}"]
            lines += [f"\\begin{{tabular}}{{l{'r' * len(names)}}}", "\\hline"]
            if any(over):
                spans = [(each, sum(1 for other in over if other == each)) for each in dict.fromkeys(over)]
                lines.append(
                    " & " + " & ".join(f"\\multicolumn{{{n}}}{{c}}{{{_latex(each)}}}" for each, n in spans) + " \\\\"
                )
            lines.append(" & ".join(["Size", *map(_latex, names)]) + " \\\\")
            lines.append("\\hline")
            for size, row in zip(table.sizes, rows, strict=True):
                lines.append(" & ".join([size_text(size), *row]) + " \\\\")
            lines += ["\\hline", "\\end{tabular}"]
            lines += [f"\\par\\footnotesize {_latex(note)}." for note in section.notes]
            lines += ["\\end{table}", ""]
    return "\n".join(lines).rstrip() + "\n"


_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", **{c: f"\\{c}" for c in "#$%&_{}"},
}  # fmt: skip


def _latex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in clean(text))


def table_html(table: Table, *, titled: bool = True) -> str:
    """The table alone; a text of a record never becomes markup."""
    over, names, rows = flat(table, lambda text: f"<b>{text}</b>")
    groups = ""
    if any(over):
        spans = [(each, sum(1 for other in over if other == each)) for each in dict.fromkeys(over)]
        groups = "<tr><th></th>" + "".join(f'<th class="over" colspan="{n}">{escape(each)}</th>' for each, n in spans)
        groups += "</tr>"
    head = "".join(f"<th>{escape(clean(name))}</th>" for name in names)
    body = "".join(
        f"<tr><td>{size_text(size)}</td>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
        for size, row in zip(table.sizes, rows, strict=True)
    )
    return (
        f'{f"<h3>{escape(table.quantity)}</h3>" if titled else ""}<div class="wide"><table class="summary">'
        f"<thead>{groups}<tr><th>Size</th>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


# Programs -------------------------------------------------------------------------------------------------------------


def sections_rows(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """One flat row per figure, for CSV and JSON."""
    return [
        {
            "section": section.title, "quantity": table.quantity, "column": head.label,
            "placement": head.placement or None, "bytes": size, "value": cell.value,
            "low": cell.range[0] if cell.range else None, "high": cell.range[1] if cell.range else None,
            "best": cell.best, "factor": cell.factor, "factor_low": cell.interval[0] if cell.interval else None,
            "factor_high": cell.interval[1] if cell.interval else None,
        }
        for section in sections
        for table in section.tables
        for size, row in zip(table.sizes, table.cells, strict=True)
        for head, cell in zip(table.heads, row, strict=True)
    ]  # fmt: skip


def rows_csv(rows: Sequence[dict[str, Any]]) -> str:
    """CSV; a text that a spreadsheet would run as a formula is defused with a leading quote."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _defused(value) for key, value in row.items()} for row in rows)
    return stream.getvalue()


def _defused(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
