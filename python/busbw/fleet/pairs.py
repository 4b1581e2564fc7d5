"""Who is measured with whom: disjoint pairs of 0..count-1, others in each turn."""

from __future__ import annotations

TURNS = 3  # pairs with as many different partners, where nobody is known to be good


def near(count: int, turn: int) -> list[tuple[int, int]]:
    """Disjoint pairs of neighbours among 0..count-1; in the third turn each but one with the next but one."""
    if turn < 2:
        pairs = [(at, at + 1) for at in range(turn, count - 1, 2)]
        return pairs + ([(0, count - 1)] if turn and count > 2 and not count % 2 else [])
    odd = count % 2
    pairs = [(0, count - 1)] if odd and count > 1 else []
    return pairs + [(at + k, at + k + 2) for at in range(odd, count - 3, 4) for k in (0, 1) if at + k + 2 < count - odd]


def matching(count: int, turn: int) -> list[tuple[int, int]]:
    """Disjoint pairs of 0..count-1, others for each turn (the circle method of tournaments)."""
    ring = list(range(count)) + ([-1] if count % 2 else [])
    rest = ring[1:]
    step = turn * max(1, len(rest) // TURNS) % len(rest)
    order = [ring[0], *rest[step:], *rest[:step]]
    half = len(order) // 2
    return [(a, b) for a, b in zip(order[:half], reversed(order[half:]), strict=True) if -1 not in (a, b)]
