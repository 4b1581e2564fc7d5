"""Sets of processors as Linux writes them: lists such as 0-3,8 and masks such as 000000ff,ffff0000."""

from __future__ import annotations

from collections.abc import Iterable

MAX_CPUS = 1 << 16


def read_list(text: str) -> tuple[int, ...]:
    """The processors of a list such as `0-3,8`; what is no number or too many is left out."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()) or len(first) > 7 or len(last) > 7:
            continue
        low, high = int(first), int(last or first)
        found.update(range(low, min(high, MAX_CPUS) + 1))
    return tuple(sorted(found))


def read_mask(text: str) -> tuple[int, ...]:
    """The processors of a mask of hexadecimal words with the highest first, as sysfs and NCCL write it."""
    digits = text.replace(",", "").strip().removeprefix("0x")
    if not digits or len(digits) > MAX_CPUS // 4 or any(each not in "0123456789abcdefABCDEF" for each in digits):
        return ()
    mask = int(digits, 16)
    return tuple(cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1)


def write_list(cpus: Iterable[int]) -> str:
    """The shortest list: 0-3,8."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def write_mask(cpus: Iterable[int]) -> str:
    """Hexadecimal words of 32 processors with the highest first."""
    mask = sum(1 << cpu for cpu in set(cpus))
    words = [f"{mask >> shift & 0xFFFFFFFF:08x}" for shift in range(0, max(mask.bit_length(), 1), 32)]
    return ",".join(reversed(words))
