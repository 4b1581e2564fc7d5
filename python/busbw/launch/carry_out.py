"""Carries out a plan, whatever its kind: writes its files, starts its processes or submits its job."""

from __future__ import annotations

from busbw.base.errors import UserError
from busbw.base.files import whole
from busbw.launch.execute import execute
from busbw.launch.plan import FilePlan, LaunchPlan


def carry_out(plan: LaunchPlan, *, timeout: float | None = None) -> int:
    """Exit code of the job."""
    for file in plan.files:
        _write(file)
    if plan.submission:
        from busbw.launch.submit import submit

        return submit(plan.submission)
    return execute(plan, timeout=timeout)


def _write(file: FilePlan) -> None:
    try:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        # A variable that a user gives to the ranks is nobody else's to read.
        with whole(file.path, 0o600) as part:
            part.write_text(file.text, encoding="utf-8")
    except OSError as problem:
        raise UserError(
            f"{file.path} cannot be written: {problem.strerror or problem}; choose another folder with --runs"
        ) from None
