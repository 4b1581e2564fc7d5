"""Sizes and times as people read them: 64 KiB, 1.5 MiB, 12.5 us; `busbw.base.quantities` reads them back."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def format_bytes(size: float) -> str:
    """A size in the largest binary unit that keeps it readable: 65536 is "64 KiB", 1000000 is "976.6 KiB"."""
    value = float(size)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"


def format_us(time_us: float) -> str:
    """A time with four significant digits in the unit that suits it."""
    if time_us < 1000:
        return f"{_digits(time_us)} us"
    if time_us < 1e6:
        return f"{_digits(time_us / 1e3)} ms"
    return f"{_digits(time_us / 1e6)} s"


def _digits(value: float) -> str:
    if value >= 1000:
        return f"{value:.0f}"
    if value >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}"
