"""Reading the table that nccl-tests and busbw print alike."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Row:
    size: int
    type: str
    op: str
    out_of_place_us: float
    out_of_place_wrong: float | None
    in_place_us: float
    in_place_wrong: float | None

    def plain(self) -> dict[str, object]:
        return asdict(self)


def _wrong(token: str) -> float | None:
    return None if token == "N/A" else float(token)


def parse_rows(text: str) -> list[Row]:
    rows = []
    for line in text.splitlines():
        words = line.split()
        # hypercube prints no operation: 12 words.
        if line.startswith("#") or len(words) not in (12, 13) or not words[0].isdigit():
            continue
        try:
            rows.append(
                Row(
                    size=int(words[0]),
                    type=words[2],
                    op=words[3] if len(words) == 13 else "",
                    out_of_place_us=float(words[-8]),
                    out_of_place_wrong=_wrong(words[-5]),
                    in_place_us=float(words[-4]),
                    in_place_wrong=_wrong(words[-1]),
                )
            )
        except ValueError:
            continue
    return rows
