"""A model's prediction shown: its answer, charts and tables; machines, layouts, curves and training steps side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...core.errors import InputError
from .options import refuse
from .present import Output, Result, present, terminal_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ...core.machine import Machine
    from ...prediction.models.choice import ServiceLevel
    from ...prediction.models.result import Load, ModelPrediction
    from ...prediction.models.scaling import Scaling
    from ...prediction.models.training import TrainingPrediction
    from ...programs.models.architecture import Architecture
    from ...programs.models.layout import Layout
    from ...programs.models.phase import Formats
    from ...render.chart import Picture
    from ...render.table import Table

MAX_OPS = 12  # of a training step on the terminal
MULTIPLES = (1, 8, 64, 512)  # batches of the small multiples
ENERGY_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def present_model(
    prediction: ModelPrediction, price: float | None, chart: str | None, verbose: bool, output: Output
) -> None:
    from ...core.documents import to_document
    from ...prediction.models.remedies import remedies
    from ...prediction.models.summary import answer
    from ...render.tables.models import both_table, model_tables

    changes = remedies(prediction)
    drawn = None if chart is None else picture(prediction, chart)  # before the answer: a chart may not exist

    def lines() -> list[str]:
        said = answer(prediction)
        best = next((change for change in changes if not change.assumed), None)
        if best is not None and best.speedup > 1:
            said.append(
                f"next: {best.name}: {best.speedup:.2f}x per request, {best.throughput_gain:.2f}x tokens a second and device"
            )
        return [*said, f"cost    {prediction.cost(price):.3g} per million tokens"] if price else said

    def terminal() -> Iterator[Table | str]:
        if drawn is not None:
            from ...render.draw.terminal import draw

            yield draw(drawn, **terminal_size())
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
            lambda: drawn or picture(prediction, "roofline"),
            answer=lines,
        ),
        output,
    )


def picture(prediction: ModelPrediction, name: str) -> Picture:
    """The chart of that name, with what it is drawn from predicted at other batches where it asks for them."""
    import numpy as np

    from ...prediction.models.linked import model_communication
    from ...prediction.models.summary import layout_text
    from ...render.charts.models import model_memory, model_roofline
    from ...render.charts.scaling import batches_chart, energy_chart, layout_communication

    if name == "batches":
        return batches_chart([prediction.with_load(batch=float(batch)) for batch in MULTIPLES])
    if name == "energy":
        return energy_chart(prediction.with_load(batch=np.asarray(ENERGY_BATCHES, dtype=np.float64)))
    if name == "communication":
        title = f"{prediction.architecture.name} on {layout_text(prediction)}"
        return layout_communication(model_communication(prediction), title)
    return model_memory(prediction) if name == "memory" else model_roofline(prediction)


def present_draft(
    prediction: ModelPrediction, architecture: Architecture, drafted: int, accepted: float, output: Output
) -> None:
    from ...core.documents import to_document
    from ...prediction.models.speculative import Speculation, predict_draft
    from ...render.tables.models import speculation_table

    made = Speculation(prediction, predict_draft(prediction, architecture), drafted, accepted)

    def document() -> dict[str, Any]:
        return {**to_document(made), "batches": to_document(made.at_batches())}

    present(Result(lambda: [speculation_table(made.at_batches())], document, answer=made.answer), output)


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


def swept_values(text: str) -> tuple[str, NDArray[np.float64]]:
    """`batch=1..8` as its name and numbers."""
    import numpy as np

    from ...core.units import axis

    swept, equals, values = text.partition("=")
    if not equals:
        raise InputError(f"--curve is NAME=VALUES such as batch=1..512, got '{text}'")
    numbers = np.atleast_1d(np.asarray(axis(values), dtype=np.float64))
    if np.any(numbers < 1) or np.any(numbers != np.round(numbers)):
        raise InputError(f"--curve {text}: the values are whole numbers from 1 on")
    return swept.strip(), numbers


def present_curve(made: Sequence[ModelPrediction], text: str, output: Output) -> None:
    from ...prediction.models.curve import curve
    from ...prediction.models.scaling import SERVED, serving_scaling
    from ...render.charts.models import curve_chart
    from ...render.tables.models import curve_table

    swept, numbers = swept_values(text)
    if swept in SERVED:
        present_scaling(serving_scaling(made, swept, numbers.tolist()), output)
        return
    swept_curve = curve(made, swept, numbers)
    present(Result(lambda: [curve_table(swept_curve)], swept_curve, picture=lambda: curve_chart(swept_curve)), output)


def present_scaling(scaling: Scaling, output: Output) -> None:
    from ...render.charts.scaling import scaling_chart
    from ...render.tables.models import scaling_table

    present(Result(lambda: [scaling_table(scaling)], scaling, picture=lambda: scaling_chart(scaling)), output)


def present_training(
    architecture: Architecture, machines: Sequence[Machine], batch: int, job: dict[str, Any], formats: Formats, layout: Layout, ceilings: str | None,
    curve: str | None, chart: str | None, output: Output,
) -> None:  # fmt: skip
    from ...core.documents import to_document
    from ...prediction.models.scaling import training_scaling
    from ...prediction.models.training import Job, predict_training
    from ...render.tables.models import training_table

    if chart not in (None, "communication"):
        raise InputError(f"--chart {chart} is about serving; with --train there is --chart communication")
    asked = Job(batch, **job)
    made = [predict_training(architecture, machine, asked, formats, layout, ceilings) for machine in machines]
    if curve is not None:
        refuse({"chart": chart}, "with --curve, which has a chart of its own")
        swept, numbers = swept_values(curve)
        present_scaling(training_scaling(made, swept, numbers.tolist()), output)
    elif len(made) == 1:
        present_step(made[0], chart, output)
    else:
        refuse({"chart": chart}, "with several machines")
        present(Result(lambda: [training_table(made)], lambda: to_document(list(made))), output)


def present_step(made: TrainingPrediction, chart: str | None, output: Output) -> None:
    """One training step: where it goes, and up to how many replicas its gradients are hidden."""
    from ...core.documents import to_document
    from ...prediction.models.linked import model_communication
    from ...prediction.models.replicas import replica_limit, replica_lines, training_remedies
    from ...prediction.models.summary import devices_text, training_answer
    from ...render.charts.scaling import layout_communication
    from ...render.tables.models import op_table

    def document() -> dict[str, Any]:
        limit, changes = to_document(replica_limit(made)), to_document(training_remedies(made))
        return {**to_document(made), "replica_limit": limit, "remedies": changes}

    drawn: Picture | None = None
    if chart is not None or (output.out is not None and made.devices > 1):  # a single device has no collectives to draw
        title = f"{made.architecture.name} on {devices_text(made.layout, made.machine.name)}, training"
        drawn = layout_communication(model_communication(made), title)

    def terminal() -> Iterator[Table | str]:
        if drawn is None:
            yield op_table("", made.step, MAX_OPS)
        else:
            from ...render.draw.terminal import draw

            yield draw(drawn, **terminal_size())

    def lines() -> list[str]:
        return [*training_answer(made), *replica_lines(made)]

    tables = [op_table("", made.step, MAX_OPS)]
    drawing = None if drawn is None else lambda: drawn
    present(Result(lambda: tables, document, terminal, drawing, answer=lines), output)


def present_list(output: Output) -> None:
    from ...render.tables.models import known_table

    present(Result(lambda: [known_table()]), output)
