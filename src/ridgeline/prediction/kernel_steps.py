"""Steps of work: kernel by kernel, and one work as it ran with a library."""

from __future__ import annotations

from dataclasses import replace

from ..core.work import Program, Step, Work


def kernels_of_step(step: Step) -> tuple[Step, ...]:
    """A step kernel by kernel: one of a sum is as many steps as the sum has parts."""
    parts = step.work.parts
    if not parts:
        return (step,)
    named = [step.name if len(parts) == 1 else f"{step.name}: {part.name}" for part in parts]
    return tuple(
        replace(part, name=name, count=part.count * step.count, backend=part.backend or step.backend)
        for part, name in zip(parts, named, strict=True)
    )


def ran_with(work: Work, backend: str | None) -> Work | Program:
    """Work whose kernels are those of a library, or of the default path where nobody timed that one."""
    return Program((Step(work.name, work, backend=backend),)) if backend else work
