"""A model's prediction shown: its answer, charts and tables; machines, layouts, curves and training steps side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.errors import InputError, unknown
from .options import refuse
from .present import Output, Result, present, terminal_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ...core.machine import Machine
    from ...prediction.models.choice import ServiceLevel
    from ...prediction.models.curve import Curve
    from ...prediction.models.result import Load, ModelPrediction
    from ...prediction.models.scaling import Scaling
    from ...prediction.models.training import TrainingPrediction
    from ...programs.models.architecture import Architecture
    from ...programs.models.layout import Layout
    from ...programs.models.phase import Formats
    from ...render.chart import Picture
    from ...render.table import Table

MAX_OPS = 12  # of a training step on the terminal
SERVING_CHARTS = ("batches", "energy")


def present_model(
    prediction: ModelPrediction, price: float | None, chart: str | None, verbose: bool, output: Output
) -> None:
    from ...core.documents import to_document
    from ...prediction.models.remedies import best_remedy, remedies
    from ...prediction.models.summary import answer
    from ...render.tables.models import both_table, model_tables

    changes, fits = remedies(prediction), bool(prediction.memory.fits.all())
    drawn = None if chart is None else drawn_picture(prediction, chart)  # before the answer: a chart may not exist

    def lines() -> list[str]:
        said = answer(prediction)
        if best := best_remedy(prediction, changes):
            pace = f"{best.speedup:.2f}x faster" if best.speedup >= 1 else f"{1 / best.speedup:.2f}x slower"
            gain = f"{pace} per token, {best.throughput_gain:.2f}x tok/s per device"
            said.append(f"next: {best.name}: {'' if fits else 'fits, '}{gain}")
        elif not fits:
            said.append("next: --fit lists the layouts that fit; none of the usual changes does by itself")
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

    def write_report(out: Path) -> None:
        from ..reports.modelled import model_page

        model_page(prediction, changes, out, output.theme, lines(), document())

    present(
        Result(
            lambda: model_tables(prediction, changes),
            document,
            terminal,
            lambda: drawn or drawn_picture(prediction, "roofline"),
            {".html": write_report if drawn is None else partial(write_chart, drawn, output)},
            answer=lines,
        ),
        output,
    )


def drawn_picture(prediction: ModelPrediction, name: str) -> Picture:
    from ..reports.modelled import model_picture

    return model_picture(prediction, name)


def write_chart(picture: Picture, output: Output, out: Path) -> None:
    """The page of one chart."""
    from ...render.draw import files

    files.save(picture, out, output.theme)


def present_draft(
    prediction: ModelPrediction, architecture: Architecture, drafted: int, accepted: float, output: Output
) -> None:
    from ...core.documents import to_document
    from ...prediction.models.speculative import Speculation, predict_draft
    from ...render.charts.served import speculation_chart
    from ...render.tables.models import speculation_table
    from ..reports.modelled import draft_page

    made = Speculation(prediction, predict_draft(prediction, architecture), drafted, accepted)

    def document() -> dict[str, Any]:
        return {**to_document(made), "batches": to_document(made.at_batches())}

    result = Result(
        lambda: [speculation_table(made.at_batches())],
        document,
        picture=lambda: speculation_chart(made.at_batches()),
        writers={".html": lambda out: draft_page(made, out, output.theme, document())},
        answer=made.answer,
    )
    present(result, output)


def present_machines(made: Sequence[ModelPrediction], by_name: dict[str, float], output: Output) -> None:
    from ...core.documents import to_document
    from ...prediction.models.choice import ServiceLevel, best
    from ...prediction.models.study_answers import machines_answer
    from ...render.charts.served import machines_chart
    from ...render.tables.models import choice_table
    from ..reports.modelled import machines_page

    rows = [best(prediction, ServiceLevel(), by_name.get(prediction.machine.name)) for prediction in made]
    lines = machines_answer(rows)
    result = Result(
        lambda: [choice_table(rows)],
        lambda: to_document(list(rows)),
        picture=lambda: machines_chart(rows, made[0].architecture.name),
        writers={".html": lambda out: machines_page(made, rows, out, output.theme, lines)},
        answer=lambda: lines,
    )
    present(result, output)


def present_choices(
    architecture: Architecture, machines: Sequence[Machine], load: Load, formats: Formats, level: ServiceLevel | None,
    given: Sequence[Layout] | None, software: str | None, by_name: dict[str, float], most: int, output: Output,
) -> None:  # fmt: skip
    from ...core.documents import to_document
    from ...prediction.models.choice import ServiceLevel, choices
    from ...prediction.models.summary import choice_answer
    from ...render.charts.served import choices_chart
    from ...render.tables.models import choice_table
    from ..reports.modelled import choices_page

    limits = level or ServiceLevel()

    rows = choices(
        architecture,
        machines,
        load,
        formats,
        limits,
        given,
        software=software,
        prices=by_name,
        most=most,
    )
    lines = choice_answer(rows)
    result = Result(
        lambda: [choice_table(rows)],
        lambda: to_document(list(rows)),
        picture=lambda: choices_chart(rows, architecture.name, limits),
        writers={".html": lambda out: choices_page(rows, architecture.name, limits, out, output.theme, lines)},
        answer=lambda: lines,
    )
    present(result, output)


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
    from ...prediction.models.curve import SWEPT, curve
    from ...prediction.models.scaling import SERVED, serving_scaling
    from ...prediction.models.study_answers import curve_answer
    from ...render.charts.models import curve_chart
    from ...render.tables.models import curve_table

    swept, numbers = swept_values(text)
    if swept in SERVED:
        present_scaling(serving_scaling(made, swept, numbers.tolist()), output)
        return
    if swept not in SWEPT:
        raise unknown("quantity of a curve", swept, (*SWEPT, *SERVED))
    swept_curve = curve(made, swept, numbers)
    name = f"{made[0].architecture.name} over {swept}"
    table, drawn = partial(curve_table, swept_curve), partial(curve_chart, swept_curve)
    present_swept(name, swept_curve, table, drawn, curve_answer(swept_curve), False, output)


def present_scaling(scaling: Scaling, output: Output) -> None:
    from ...prediction.models.study_answers import scaling_answer
    from ...render.charts.scaling import scaling_chart
    from ...render.tables.models import scaling_table

    name = f"{'training ' if scaling.training else ''}{scaling.model} over {scaling.degree}"
    table, drawn = partial(scaling_table, scaling), partial(scaling_chart, scaling)
    present_swept(name, scaling, table, drawn, scaling_answer(scaling), scaling.training, output)


def present_swept(
    name: str, study: Curve | Scaling, table: Callable[[], Table], drawn: Callable[[], Picture], lines: list[str], training: bool, output: Output
) -> None:  # fmt: skip
    """A curve over loads or devices: its answer, its chart, its table."""
    from ...core.documents import to_document

    def write_report(out: Path) -> None:
        from ..reports.modelled import SERVING_UNCOUNTED, TRAINING_UNCOUNTED, study_page
        from ..reports.parts import drawable

        uncounted = TRAINING_UNCOUNTED if training else SERVING_UNCOUNTED
        study_page(name, drawable(drawn), table(), uncounted, out, output.theme, lines, to_document(study))

    present(
        Result(lambda: [table()], study, picture=drawn, writers={".html": write_report}, answer=lambda: lines),
        output,
    )


def present_training(
    architecture: Architecture, machines: Sequence[Machine], batch: int, job: dict[str, Any], formats: Formats, layout: Layout, ceilings: str | None,
    curve: str | None, chart: str | None, output: Output,
) -> None:  # fmt: skip
    from ...prediction.models.scaling import training_scaling
    from ...prediction.models.training import Job, predict_training

    if chart in SERVING_CHARTS:
        raise InputError(f"--chart {chart} is about serving; with --train there are roofline, memory and communication")
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
        present_trained(made, output)


def present_trained(made: Sequence[TrainingPrediction], output: Output) -> None:
    """Machines side by side."""
    from ...core.documents import to_document
    from ...prediction.models.study_answers import trained_answer
    from ...render.charts.served import trained_chart
    from ...render.tables.models import training_table
    from ..reports.modelled import trained_page

    lines = trained_answer(made)
    result = Result(
        lambda: [training_table(made)],
        lambda: to_document(list(made)),
        picture=lambda: trained_chart(made),
        writers={".html": lambda out: trained_page(made, out, output.theme, lines)},
        answer=lambda: lines,
    )
    present(result, output)


def present_step(made: TrainingPrediction, chart: str | None, output: Output) -> None:
    """One training step: where it goes, and up to how many replicas its gradients are hidden."""
    from ...core.documents import to_document
    from ...prediction.models.replicas import replica_limit, replica_lines, training_remedies
    from ...prediction.models.summary import training_answer
    from ...render.tables.models import op_table
    from ..reports.modelled import training_page, training_picture

    changes = cache(lambda: training_remedies(made))

    def document() -> dict[str, Any]:
        limit = to_document(replica_limit(made))
        return {**to_document(made), "replica_limit": limit, "remedies": to_document(changes())}

    drawn = None if chart is None else training_picture(made, chart)  # before the answer: a chart may not exist

    def tables() -> list[Table]:
        return [op_table("", made.step, None if output.complete else MAX_OPS)]

    def terminal() -> Iterator[Table | str]:
        if drawn is None:
            yield from tables()
        else:
            from ...render.draw.terminal import draw

            yield draw(drawn, **terminal_size())

    def lines() -> list[str]:
        return [*training_answer(made), *replica_lines(made)]

    def write_report(out: Path) -> None:
        training_page(made, changes(), out, output.theme, lines(), document())

    page = write_report if drawn is None else partial(write_chart, drawn, output)
    picture = lambda: drawn or training_picture(made, "roofline")  # noqa: E731
    present(Result(tables, document, terminal, picture, {".html": page}, lines), output)


def present_list(output: Output) -> None:
    from ...render.tables.models import known_table

    present(Result(lambda: [known_table()]), output)
