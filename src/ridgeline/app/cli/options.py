"""Options and NAME=VALUE words that several commands share; a group of options reaches a command as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import partial, wraps
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...core.errors import InputError
from .echo import echo
from .present import Output

if TYPE_CHECKING:
    from ...core.machine import Machine
    from ...programs.ops import Op

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]

PATH = click.Path(path_type=Path)


def fraction(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """A share such as 0.05, or percent with their sign; a number of 1 or more without it is most likely meant as percent."""
    text = value.strip()
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise click.BadParameter(f"'{text}' is not a fraction such as 0.05", ctx, param) from None
    if number >= 1 and not text.endswith("%"):
        hint = f"{text} is {100 * number:g} %; write {number / 100:g} for {text} %"
        raise click.BadParameter(hint, ctx, param)
    return number


CEILINGS = click.Choice(["stated", "derived", "measured"])
CEILINGS_HELP = "Which figures to use (default: measured, else stated, else derived)."


def grouped(name: str, make: Callable[..., Any], **options: Decorator) -> Decorator:
    """Adds options to a command, which gets their values as one: `name=make(**values)`."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def call(*args: Any, **values: Any) -> Any:
            group = make(**{option: values.pop(option) for option in options})
            return command(*args, **{name: group}, **values)

        decorated: Command = call
        for option in reversed(options.values()):
            decorated = option(decorated)
        return decorated

    return decorate


PICTURE_SUFFIXES = (".svg", ".png", ".pdf", ".html")
PICTURE_OR_DATA = "Write a file: .svg .png .pdf .html (picture), .json .csv .md (data)."


def output_options(out: str = "", theme: bool = False) -> Decorator:
    """--json; --out where its help text is given; --theme. The command gets them as `output`."""
    options = {"as_json": click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")}
    if out:
        options["out"] = click.option("--out", type=PATH, help=out)
    if theme:
        themes = click.Choice(["light", "dark"])
        options["theme"] = click.option("--theme", type=themes, help="Colours of a picture (default: light).")
    return grouped("output", make_output, **options)


def make_output(as_json: bool, out: Path | None = None, theme: str | None = None) -> Output:
    if theme and (out is None or out.suffix not in PICTURE_SUFFIXES):
        raise InputError(f"--theme {theme} colours a picture; write one with --out FILE.svg, .png, .pdf or .html")
    return Output(as_json, out, theme or "light")


def refuse(options: Mapping[str, Any], why: str) -> None:
    """Refuse the first of these options that was given, where it would have no effect."""
    for name, value in options.items():
        if value:
            raise InputError(f"--{name.replace('_', '-')} has no effect {why}")


def drawn(output: Output) -> bool:
    """Whether a picture or a page is asked for."""
    return output.out is not None and output.out.suffix in PICTURE_SUFFIXES


def refuse_chart_on_data(output: Output, chart: str | None) -> None:
    """Refuse a chart where the answer is written as data."""
    if output.as_json or (output.out is not None and not drawn(output)):
        refuse({"chart": chart}, "on data; leave it out, or take --out FILE.svg, .png, .pdf or .html")


json_output = output_options()
verbose_option = click.option("-v", "--verbose", is_flag=True, help="Details below the answer.")
picture_output = output_options(PICTURE_OR_DATA, theme=True)


def not_blank(context: click.Context, option: click.Parameter, value: Any) -> Any:
    """The value of an option; an empty one is the shell variable that was not set, and must not mean the default."""
    texts = value if isinstance(value, tuple) else (value,)
    if any(text is not None and not text.strip() for text in texts):
        raise InputError(f"{option.opts[0]} is empty; give it a value, or leave it out")
    return value


@dataclass(frozen=True)
class MachineOptions:
    """The machine that the options name, and the figures they give instead of its own."""

    on: str | None = None
    peak: str | None = None
    bandwidth: str | None = None
    launch: str | None = None

    def __bool__(self) -> bool:
        return any(astuple(self))

    def given(self) -> dict[str, Any]:
        """The options by name, of which those not given are None."""
        return asdict(self)

    def load(self) -> Machine:
        """From the catalog or a file, with the figures that were given; of two numbers alone; else this machine, measured."""
        machine = self.load_if_known()
        if machine is None:
            raise InputError(
                "no machine: name one with --on (`ridgeline machines` lists them), give both --peak and --bandwidth, "
                "or run `ridgeline measure` once to use this one"
            )
        return machine

    def load_if_known(self) -> Machine | None:
        """As `load`; None where none is named and this machine was not measured."""
        from ...core.machine import two_number
        from ...machines.load import default

        peak = quantity("--peak", self.peak, "flop/s")
        bandwidth = quantity("--bandwidth", self.bandwidth, "B/s")
        launch = quantity("--launch", self.launch, "s")
        if self.on:
            return load_machine(self.on).with_figures(peak=peak, bandwidth=bandwidth, launch=launch)
        if peak is not None and bandwidth is not None:
            return two_number(peak, bandwidth, launch)
        if peak is not None or bandwidth is not None:
            given = "--peak" if bandwidth is None else "--bandwidth"
            raise InputError(
                f"{given} alone does not make a machine; give both --peak and --bandwidth, or name one with --on"
            )
        machine = default()
        return machine if machine is None else machine.with_figures(launch=launch)


def load_machine(name: str) -> Machine:
    """The machine of a name; a short form says on standard error which one it means."""
    from ...machines.load import load

    machine = load(name)
    is_name = not name.lower().startswith("here") and not name.endswith(".toml")
    if is_name and name.lower() != machine.name:
        echo(f"{name}: using {machine.name}", err=True)
    return machine


def quantity(option: str, text: str | None, unit: str) -> float | None:
    """The value of an option; a number without a unit is asked for one."""
    from ...core.units import WRITTEN, bare, parse

    if not text:
        return None
    value = parse(text, unit)
    if bare(text):
        amount = text.strip()
        examples = UNITS[unit] if value < MIN_BASE_UNITS else f"'{{0}} {WRITTEN.get(unit, unit)}'"
        raise InputError(f"{option} {amount}: {amount} what? write {examples.format(amount)}")
    return value


MIN_BASE_UNITS = 1e6  # a rate of at least this much was meant per second, without a prefix
UNITS = {
    "s": "{0}us, {0}ms or {0}s",
    "flop/s": "'{0} TFLOP/s', '{0} GFLOP/s' or '{0} FLOP/s'",
    "B/s": "'{0} TB/s', '{0} GB/s' or '{0} B/s'",
}

FIGURES: dict[str, Decorator] = {
    "peak": click.option("--peak", metavar="RATE", callback=not_blank, help="A peak such as '989 TFLOP/s'."),
    "bandwidth": click.option(
        "--bandwidth", metavar="RATE", callback=not_blank, help="A main-memory bandwidth such as '3.35 TB/s'."
    ),
    "launch": click.option("--launch", metavar="TIME", callback=not_blank, help="Launch latency, such as '8 us'."),
}

machine_options = grouped(
    "machine", MachineOptions,
    on=click.option("--on", "on", metavar="MACHINE", callback=not_blank, help="A machine of the catalog, a .toml file, or `here` (default: this machine, once measured)."),
    **FIGURES,
)  # fmt: skip


def load_machines(on: Sequence[str], **figures: str | None) -> list[Machine]:
    """Each machine that is named, in order; the default where none is. Figures given instead of its own are of one machine."""
    names: list[str | None] = list(dict.fromkeys(name for words in on for name in words.split(",") if name)) or [None]
    if len(names) > 1:
        refuse(figures, "with several machines: it is a figure of one")
    return [MachineOptions(name, **figures).load() for name in names]


ON_MACHINES = click.option("--on", "on", metavar="MACHINE", multiple=True, callback=not_blank, help="A machine as of other commands; several side by side with commas, or given again.")  # fmt: skip
machines_options = grouped("machines", load_machines, on=ON_MACHINES, **FIGURES)
# for commands that may need none: the machines are loaded when they are asked for
later_machines_options = grouped("load_asked", lambda **words: partial(load_machines, **words), on=ON_MACHINES, **FIGURES)  # fmt: skip

model_options = grouped(
    "model", dict,
    ceilings=click.option("--ceilings", type=CEILINGS, help=CEILINGS_HELP),
    engine=click.option("--engine", type=click.Choice(["vector", "tensor", "tensor-sparse"]), help="Engine for matrix products."),
    resident=click.option("--resident", metavar="LEVEL", callback=not_blank, help="Cache level that already holds the data, such as l2."),
    efficiency=click.option("--efficiency", type=float, help="One efficiency for every ceiling, such as 0.78."),
    backend=click.option("--backend", metavar="NAME", callback=not_blank, help="Library whose kernels to predict, such as vllm-0.24.0."),
)  # fmt: skip


def format_options(weights: str) -> Decorator:
    """Number formats of an op; the help text of --weights is given."""
    return grouped(
        "formats", dict,
        dtype=click.option("--dtype", help="Format of the arithmetic (default bf16)."),
        weights=click.option("--weights", help=weights),
        out_dtype=click.option("--out-dtype", help="Storage format of the result."),
        kv=click.option("--kv", help="Storage format of keys and values."),
    )  # fmt: skip


format_option = click.option("--as", "form", metavar="FORMAT", help="Format of FILE, if it is not recognised.")


WRITTEN_WEIGHT = 10  # a case that is written in full takes the memory of ten that are summarised


def bind(op: Op, words: Sequence[str], formats: dict[str, str | None], written: bool = False) -> dict[str, Any]:
    """`k=v` words and storage options as the op's arguments; several axes make a full grid, if that is not too large."""
    import numpy as np

    from ...core.intake.limits import refuse_over
    from ...programs.cases import arguments

    values = arguments(op, words, formats)
    axes = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    count = prod(len(value) for value in axes.values())
    if written and len(axes):
        refuse_over(
            "cases",
            WRITTEN_WEIGHT * count,
            f"this sweep with its {count:,} cases, each of which counts as ten in full,",
        )
    refuse_over("cases", count, f"this sweep with its {count:,} cases")
    if len(axes) > 1:
        values.update(zip(axes, (grid.ravel() for grid in np.meshgrid(*axes.values(), indexing="ij")), strict=True))
    return values
