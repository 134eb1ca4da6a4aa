"""A model's prediction shown: its answer, charts and tables; machines, layouts, curves and training steps side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...core.errors import InputError
from .present import Output, Result, present, terminal_size

if TYPE_CHECKING:
    from ...core.machine import Machine
    from ...prediction.models.choice import ServiceLevel
    from ...prediction.models.result import Load, ModelPrediction
    from ...programs.models.architecture import Architecture
    from ...programs.models.layout import Layout
    from ...programs.models.phase import Formats
    from ...render.table import Table

MAX_OPS = 12  # of a training step on the terminal


def present_model(
    prediction: ModelPrediction, price: float | None, chart: str | None, verbose: bool, output: Output
) -> None:
    from ...core.documents import to_document
    from ...prediction.models.remedies import remedies
    from ...prediction.models.summary import answer
    from ...render.charts.models import CHARTS as DRAWN
    from ...render.tables.models import both_table, model_tables

    changes = remedies(prediction)

    def lines() -> list[str]:
        said = answer(prediction)
        best = next((change for change in changes if not change.assumed), None)
        if best is not None and best.speedup > 1:
            said.append(
                f"next: {best.name}: {best.speedup:.2f}x per request, {best.throughput_gain:.2f}x tokens a second and device"
            )
        return [*said, f"cost    {prediction.cost(price):.3g} per million tokens"] if price else said

    def terminal() -> Iterator[Table | str]:
        if chart is not None:
            from ...render.draw.terminal import draw

            yield draw(DRAWN[chart](prediction), **terminal_size())
        elif verbose:
            yield from model_tables(prediction, changes)
        else:
            yield both_table(prediction)

    def document() -> dict[str, Any]:
        made: dict[str, Any] = to_document(prediction)
        return {**made, "remedies": to_document(changes), "cost_per_million": prediction.cost(price) if price else None}

    present(
        Result(
            lambda: model_tables(prediction, changes),
            document,
            terminal,
            lambda: DRAWN[chart or "roofline"](prediction),
            answer=lines,
        ),
        output,
    )


def present_machines(made: Sequence[ModelPrediction], by_name: dict[str, float], output: Output) -> None:
    from ...core.documents import to_document
    from ...prediction.models.choice import ServiceLevel, best
    from ...render.tables.models import choice_table

    rows = [best(prediction, ServiceLevel(), by_name.get(prediction.machine.name)) for prediction in made]
    present(Result(lambda: [choice_table(rows)], lambda: to_document(list(rows))), output)


def present_choices(
    architecture: Architecture, machines: Sequence[Machine], load: Load, formats: Formats, level: ServiceLevel | None,
    given: Sequence[Layout] | None, software: str | None, by_name: dict[str, float], most: int, output: Output,
) -> None:  # fmt: skip
    from ...core.documents import to_document
    from ...prediction.models.choice import ServiceLevel, choices
    from ...prediction.models.summary import choice_answer
    from ...render.tables.models import choice_table

    rows = choices(
        architecture,
        machines,
        load,
        formats,
        level or ServiceLevel(),
        given,
        software=software,
        prices=by_name,
        most=most,
    )
    present(
        Result(lambda: [choice_table(rows)], lambda: to_document(list(rows)), answer=lambda: choice_answer(rows)),
        output,
    )


def present_curve(made: Sequence[ModelPrediction], text: str, output: Output) -> None:
    import numpy as np

    from ...core.units import axis
    from ...prediction.models.curve import curve
    from ...render.charts.models import curve_chart
    from ...render.tables.models import curve_table

    swept, equals, values = text.partition("=")
    if not equals:
        raise InputError(f"--curve is NAME=VALUES such as batch=1..512, got '{text}'")
    numbers = np.atleast_1d(np.asarray(axis(values), dtype=np.float64))
    if np.any(numbers < 1) or np.any(numbers != np.round(numbers)):
        raise InputError(f"--curve {text}: the values are whole numbers from 1 on")
    swept_curve = curve(made, swept.strip(), numbers)
    present(Result(lambda: [curve_table(swept_curve)], swept_curve, picture=lambda: curve_chart(swept_curve)), output)


def present_training(
    architecture: Architecture, machines: Sequence[Machine], batch: int, job: dict[str, Any], formats: Formats, layout: Layout, ceilings: str | None,
    output: Output,
) -> None:  # fmt: skip
    from ...core.documents import to_document
    from ...prediction.models.summary import training_answer
    from ...prediction.models.training import Job, predict_training
    from ...render.tables.models import op_table, training_table

    asked = Job(batch, **job)
    made = [predict_training(architecture, machine, asked, formats, layout, ceilings) for machine in machines]
    if len(made) == 1:
        result = Result(lambda: [op_table("", made[0].step, MAX_OPS)], made[0], answer=lambda: training_answer(made[0]))
    else:
        result = Result(lambda: [training_table(made)], lambda: to_document(list(made)))
    present(result, output)


def present_list(output: Output) -> None:
    from ...render.tables.models import known_table

    present(Result(lambda: [known_table()]), output)
