"""Latency and asymptotic bandwidth: the line t = alpha + beta * bytes through a sweep, with standard errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.analysis.statistics import median

MIN_POINTS = 4
_ROUNDS = 50
# Huber's constant: 95 % as efficient as least squares on normal noise, and unmoved by a few bad points.
_HUBER = 1.345


@dataclass(frozen=True)
class LatencyBandwidth:
    """The fitted line; errors are one standard error."""

    alpha_us: float
    alpha_error_us: float
    beta_us_per_byte: float
    beta_error_us_per_byte: float
    points: int
    misfit: float
    """Typical relative distance of a point from the line (scaled median absolute residual)."""

    @property
    def algbw_GBps(self) -> float:
        """Asymptotic algorithm bandwidth: what the size grows by per unit of time, once the latency is paid."""
        return 1e-3 / self.beta_us_per_byte

    @property
    def algbw_error_GBps(self) -> float:
        return self.algbw_GBps * self.beta_error_us_per_byte / self.beta_us_per_byte

    def time_us(self, size: float) -> float:
        return self.alpha_us + self.beta_us_per_byte * size


def fit_latency_bandwidth(sizes: Sequence[float], times_us: Sequence[float]) -> LatencyBandwidth | None:
    """Fits alpha and beta so that relative errors count alike at 8 bytes and at 8 GiB; None where no line can be had.

    Weights are 1/t^2 (the noise of a time grows with it) times Huber's weights (a protocol switch in mid-sweep or one
    disturbed point does not tilt the line). Standard errors come from the scatter about the line, so a sweep that is no
    line says so by wide errors.
    """
    points = [(float(s), float(t)) for s, t in zip(sizes, times_us, strict=True) if t > 0 and math.isfinite(t)]
    if len(points) < MIN_POINTS or len({size for size, _ in points}) < 3:
        return None
    # In units of the largest size, so that the normal equations stay well conditioned.
    unit = max(size for size, _ in points)
    if unit <= 0:
        return None
    rows = [(1 / time, size / unit / time) for size, time in points]
    huber = [1.0] * len(rows)
    alpha = beta = 0.0
    scale = 0.0
    for _ in range(_ROUNDS):
        solved = _solve(rows, huber)
        if solved is None:
            return None
        previous, (alpha, beta) = (alpha, beta), solved
        residuals = [1 - alpha * a - beta * b for a, b in rows]
        scale = 1.4826 * median([abs(value) for value in residuals])
        if scale < 1e-12 or _close(previous, (alpha, beta)):
            break
        huber = [min(1.0, _HUBER * scale / abs(value)) if value else 1.0 for value in residuals]
    if beta <= 0:
        return None
    alpha_error, beta_error = _errors(rows, huber, (alpha, beta), scale)
    return LatencyBandwidth(alpha, alpha_error, beta / unit, beta_error / unit, len(points), scale)


def _solve(rows: Sequence[tuple[float, float]], weights: Sequence[float]) -> tuple[float, float] | None:
    aa, ab, bb = _normal(rows, weights)
    right_a = math.fsum(w * a for w, (a, _) in zip(weights, rows, strict=True))
    right_b = math.fsum(w * b for w, (_, b) in zip(weights, rows, strict=True))
    determinant = aa * bb - ab * ab
    if determinant <= 1e-12 * aa * bb:
        return None
    return (bb * right_a - ab * right_b) / determinant, (aa * right_b - ab * right_a) / determinant


def _normal(rows: Sequence[tuple[float, float]], weights: Sequence[float]) -> tuple[float, float, float]:
    aa = math.fsum(w * a * a for w, (a, _) in zip(weights, rows, strict=True))
    ab = math.fsum(w * a * b for w, (a, b) in zip(weights, rows, strict=True))
    bb = math.fsum(w * b * b for w, (_, b) in zip(weights, rows, strict=True))
    return aa, ab, bb


def _errors(
    rows: Sequence[tuple[float, float]], weights: Sequence[float], line: tuple[float, float], scale: float
) -> tuple[float, float]:
    """Standard errors of a Huber estimate: K^2 mean(psi^2) / mean(psi')^2 times the inverse normal matrix."""
    freedom = len(rows) - 2
    if scale < 1e-12 or freedom <= 0:
        return 0.0, 0.0
    limit = _HUBER * scale
    psi = [max(-limit, min(limit, 1 - line[0] * a - line[1] * b)) for a, b in rows]
    inside = sum(abs(value) < limit for value in psi) / len(rows)
    if inside == 0:
        return math.inf, math.inf
    correction = 1 + 2 / len(rows) * (1 - inside) / inside
    variance = correction**2 * math.fsum(value * value for value in psi) / freedom / inside**2
    aa, ab, bb = _normal(rows, [1.0] * len(rows))
    determinant = aa * bb - ab * ab
    return math.sqrt(variance * bb / determinant), math.sqrt(variance * aa / determinant)


def _close(before: tuple[float, float], after: tuple[float, float]) -> bool:
    return all(abs(x - y) <= 1e-9 * (abs(x) + abs(y)) for x, y in zip(before, after, strict=True))
