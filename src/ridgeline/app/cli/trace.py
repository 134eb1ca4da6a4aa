"""Trace a program: what a PyTorch or JAX program does and takes on a machine, without running it there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...core.errors import InputError, unknown
from .command import command
from .options import (
    CEILINGS,
    CEILINGS_HELP,
    PATH,
    drawn,
    machines_options,
    picture_output,
    refuse,
    refuse_chart_on_data,
    verbose_option,
)
from .present import Output
from .traced import present_program, present_study

if TYPE_CHECKING:
    from ...core.machine import Machine
    from ...core.trace import Trace
    from ...gaps.ledger import Sealed
    from ...prediction.traced import ProgramPrediction
    from ...prediction.traced.side_by_side import SideBySide
    from ...prediction.traced.whatif import ProgramChange

VIEWS = ("op", "family", "phase", "module", "line")
CHARTS = ROOFLINE, *_ = ("roofline", "icicle", "memory")
MODES = *_, FUSED = ("eager", "graph", "fused")
MAX_PROGRAMS = 200  # side by side: each is traced or predicted


@command()
@click.argument("target", metavar="FILE.py:NAME")
@machines_options
@click.option(
    "--mode", default="eager", show_default=True, help="eager, graph or fused; several side by side with commas."
)
@click.option("--backward", is_flag=True, help="Differentiate the sum of the output too.")
@click.option(
    "--dtype", metavar="DTYPES", help="Cast the module and its inputs to a format first; several with commas."
)
@click.option("--sweep", metavar="NAME=VALUES", help="Call NAME(batch=1), NAME(batch=2) ... for batch=1..256.")
@click.option("--ceilings", type=CEILINGS, help=CEILINGS_HELP)
@click.option("--by", "view", type=click.Choice(VIEWS), help="Rows of the table (default: op).")
@click.option("--top", type=click.IntRange(1), help="Rows of the table.")
@click.option(
    "--whatif",
    "changes",
    metavar="CHANGES",
    help="What changes would bring, each by itself: graph,compile,fp8,attention,machine=b200-sxm,batch=32.",
)
@click.option(
    "--chart",
    type=click.Choice(CHARTS),
    help="Draw this, in the terminal or to --out (default there: roofline; .html without it is a report of all).",
)
@click.option(
    "--timeline", type=PATH, help="Write the predicted timeline for Perfetto or chrome://tracing: .json, .json.gz."
)
@click.option(
    "--seal",
    "sealing",
    is_flag=True,
    help="Seal the prediction in the ledger; settle it with `reconcile TRACE --seal ID`.",
)
@click.option("--note", default="", help="With --seal: a line stored with it.")
@click.option("--ledger", "path", type=PATH, help="With --seal: another ledger file.")
@verbose_option
@picture_output
@click.pass_context
def trace(
    ctx: click.Context, /, target: str, machines: list[Machine], mode: str, sweep: str | None, dtype: str | None, backward: bool, ceilings: str | None,
    changes: str | None, sealing: bool, note: str, path: Path | None, output: Output, **shown: Any,
) -> None:  # fmt: skip
    """Predict a program op by op: time, bound, memory.

    NAME is a function of FILE.py that returns (callable, args) or (callable, args, kwargs), of PyTorch or JAX. It is
    called, and what it returns is called: that Python runs, but on tensors without data. No GPU is used.

    \b
      ridgeline trace train.py:step --on h200-sxm
      ridgeline trace train.py:step --on h200-sxm,b200-sxm --mode eager,graph,fused
      ridgeline trace train.py:step --on h200-sxm --sweep batch=1..256
      ridgeline trace train.py:step --on h200-sxm --sweep batch=1,64 --chart roofline --out clouds.svg
      ridgeline trace train.py:step --on h200-sxm --chart icicle --out step.svg
    """
    from ...programs.trace.target import default_of

    modes = listed(mode, MODES, "mode of a program")
    check_shown(output, changes, **shown)
    refuse({} if sealing else {"note": note, "ledger": path}, "without --seal")
    swept, values = parse_sweep(sweep)
    dtypes = [name for name in (dtype or "").split(",") if name] or [""]
    count = len(machines) * len(modes) * len(values) * len(dtypes)
    if count > MAX_PROGRAMS:
        raise InputError(
            f"{count} programs side by side are more than {MAX_PROGRAMS}; take fewer values, machines or modes"
        )
    if count == 1:
        made = traced(target, backward, swept, values[0], dtypes[0], modes[0])
        program = predicted(made, machines[0], modes[0], ceilings)
        trace_with = lambda name, value: traced(target, backward, name, value, dtypes[0], modes[0])  # noqa: E731
        value_of = lambda name: values[0] if name == swept else default_of(target, name)  # noqa: E731
        rows = priced(program, changes, ceilings, trace_with, value_of)
        show = partial(present_program, program, output, rows, **shown)
        if sealing:
            seal(ctx, program, note, path, lambda sealed: show(sealed=sealed))
        else:
            show()
        return
    chart = shown.pop("chart") if shown["chart"] == ROOFLINE else None
    about_one = {"by": shown.pop("view"), **shown, "whatif": changes, "seal": sealing}
    refuse(about_one, f"with {count} programs side by side: it is about one")
    if chart and len(machines) > 1:
        raise InputError("--chart roofline of several cases is about one machine; give one to --on")
    present_study(study(target, backward, (swept, values), dtypes, machines, modes, ceilings), output, chart)


def listed(text: str, known: Sequence[str], kind: str) -> list[str]:
    """Words with commas between them, each of which is known."""
    words = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    for word in words:
        if word not in known:
            raise unknown(kind, word, known)
    if not words:
        raise InputError(f"no {kind} is named; known are {', '.join(known)}")
    return words


def parse_sweep(text: str | None) -> tuple[str, list[int | None]]:
    """`batch=1..8` as the name of an argument and its values, which are whole numbers."""
    import numpy as np

    from ...core.units import axis

    if text is None:
        return "", [None]
    name, equals, values = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise InputError(f"--sweep is NAME=VALUES such as batch=1..256, got '{text}'")
    numbers = np.ravel(axis(values)).tolist()
    if any(value != int(value) for value in numbers):
        raise InputError(f"--sweep {text}: the values are whole numbers, such as batch=1..256 or batch=1,8,64")
    if len(numbers) > MAX_PROGRAMS:
        raise InputError(f"--sweep {text}: {len(numbers)} values are more than {MAX_PROGRAMS}; take fewer")
    return name.strip(), [int(value) for value in numbers]


def check_shown(
    output: Output,
    changes: str | None,
    view: str | None,
    top: int | None,
    chart: str | None,
    timeline: Path | None,
    verbose: bool,
) -> None:
    """Refuse options that would change nothing, before anything is traced."""
    from ...core.files import writable

    refuse_chart_on_data(output, chart)
    if output.complete:
        refuse({"verbose": verbose}, "with --json or --out: it is for the terminal")
    if changes is not None:
        refuse({"by": view, "top": top, "chart": chart}, "with --whatif, which has a table of its own")
    if drawn(output):
        if output.out is not None and output.out.suffix != ".html":
            refuse(
                {"whatif": changes}, "on a picture; take a page (--out FILE.html), --json, --out FILE.csv or no --out"
            )
        refuse({"by": view, "top": top}, "on a picture or a page: it chooses rows of the table")
    if not view and output.complete:
        refuse({"top": top}, "on data without --by: all ops are written")
    if timeline is not None:
        if not timeline.name.endswith((".json", ".json.gz")):
            raise InputError(f"{timeline}: a timeline is written to .json or .json.gz")
        writable(timeline)


# -- from a target to predictions ------------------------------------------------------------------------------


def traced(target: str, backward: bool, swept: str, value: int | None, dtype: str, mode: str = "eager") -> Trace:
    from ...programs.trace.target_program import trace_target

    values = {} if value is None else {swept: value}
    return trace_target(target, values, backward=backward, dtype=dtype, compiled=mode == FUSED)


def priced(
    program: ProgramPrediction, changes: str | None, ceilings: str | None, trace_with: Callable[[str, int], Trace],
    value_of: Callable[[str], Any],
) -> tuple[ProgramChange, ...]:  # fmt: skip
    """The changes that are asked for, each by itself; an argument of the target with another value is traced again."""
    from ...prediction.traced.whatif import program_changes

    if changes is None:
        return ()
    names: list[str] = []
    machines: list[str] = []
    batches: dict[float, Callable[[], Trace]] = {}
    for text in filter(None, (word.strip() for word in changes.split(","))):
        name, equals, value = text.partition("=")
        if not equals:
            names.append(text)
        elif name == "machine":
            machines.append(value)
        else:
            before = value_of(name)
            if not value.isdigit() or not int(value):
                raise InputError(f"--whatif {text}: give a whole number, such as batch=32")
            if not isinstance(before, int) or before <= 0:
                hint = f"give it with --sweep {name}=N, or as the default of {name}"
                raise InputError(f"--whatif {text}: the value of {name} now is not known; {hint}")
            batches[int(value) / before] = partial(trace_with, name, int(value))
    if not (names or machines or batches):
        raise InputError("--whatif names no change: graph, compile, fp8, attention, machine=NAME, batch=N")
    return program_changes(program.trace, program.machine, program.mode, names, machines, batches, ceilings)


def predicted(program: Trace, machine: Machine, mode: str, ceilings: str | None) -> ProgramPrediction:
    from ...prediction.traced import predict_trace

    return predict_trace(program, machine, mode, ceilings)


def study(
    target: str, backward: bool, sweep: tuple[str, Sequence[int | None]], dtypes: Sequence[str],
    machines: Sequence[Machine], modes: Sequence[str], ceilings: str | None,
) -> SideBySide:  # fmt: skip
    """The program in every combination; each size and format is traced once, and once more as a compiler sees it."""
    from ...prediction.traced.side_by_side import Case, SideBySide

    swept, values = sweep
    cases = []
    for dtype in dtypes:
        for value in values:
            sorts = {mode == FUSED: mode for mode in modes}
            programs = {fused: traced(target, backward, swept, value, dtype, mode) for fused, mode in sorts.items()}
            for machine in machines:
                for mode in modes:
                    setting: dict[str, Any] = {"machine": machine.name, "mode": mode}
                    setting |= {"dtype": dtype} if dtype else {}
                    setting |= {swept: value} if swept else {}
                    cases.append(Case(setting, predicted(programs[mode == FUSED], machine, mode, ceilings)))
    return SideBySide(target.rpartition(":")[2], tuple(cases), swept if len(values) > 1 else "")


def seal(
    ctx: click.Context, program: ProgramPrediction, note: str, path: Path | None, show: Callable[[Sealed], None]
) -> None:
    """Add the prediction to the ledger; it is shown if it was added, and added if it can be shown."""
    from ...gaps.ledger import open_ledger
    from ...gaps.traced import seal_program
    from .record import broken_is_1, printed_at_end

    with broken_is_1(ctx), printed_at_end():
        seal_program(open_ledger(path), program, note, show)
