"""A transformer on a machine: first token, further tokens, throughput, memory; curves, layouts, changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ...core.errors import InputError
from .command import command
from .modelled import (
    present_choices,
    present_curve,
    present_draft,
    present_list,
    present_machines,
    present_model,
    present_training,
)
from .options import (
    CEILINGS,
    CEILINGS_HELP,
    grouped,
    later_machines_options,
    picture_output,
    quantity,
    refuse,
    refuse_chart_on_data,
    verbose_option,
)
from .present import Output

if TYPE_CHECKING:
    from ...core.machine import Machine
    from ...prediction.models.choice import ServiceLevel
    from ...prediction.models.result import Load
    from ...programs.models.architecture import Architecture
    from ...programs.models.layout import Layout
    from ...programs.models.phase import Formats

CHARTS = ("roofline", "memory", "batches", "energy", "communication")
LEVELS = ("ttft", "tpot")


def make_load(batch: float, prompt: float, generate: float, static: bool) -> Load:
    from ...prediction.models.result import Load

    return Load(batch, prompt, generate, static)


def make_formats(dtype: str, weights: str | None, kv: str | None) -> Formats:
    from ...prediction.models.ask import formats_for

    return formats_for(dtype, weights, kv)


def make_job(
    train: bool, tokens: int | None, micro: int | None, recompute: str | None, interleaved: int | None
) -> dict[str, Any] | None:
    """What a training step is asked for besides its batch; None without --train."""
    given = {"tokens": tokens, "micro": micro, "recompute": recompute, "interleaved": interleaved}
    if not train:
        refuse(given, "without --train")
        return None
    return {name: value for name, value in given.items() if value is not None}


def make_draft(draft: str | None, drafted: int | None, accepted: float | None) -> tuple[str, int, float] | None:
    """Name, proposed tokens and acceptance of a draft model; None without --draft."""
    if draft is None:
        refuse({"drafted": drafted, "accepted": accepted}, "without --draft")
        return None
    from ...prediction.models.remedies import ACCEPTED, DRAFTED

    return draft, drafted or DRAFTED, ACCEPTED if accepted is None else accepted


def make_layout(**degrees: Any) -> Layout:
    from ...programs.models.layout import Layout

    return Layout(**degrees)


POSITIVE = click.IntRange(1)
load_options = grouped(
    "load", make_load,
    batch=click.option("--batch", type=POSITIVE, default=1, show_default=True, help="Sequences that are served at a time."),
    prompt=click.option("--prompt", type=POSITIVE, default=2048, show_default=True, help="Tokens of a prompt."),
    generate=click.option("--generate", type=POSITIVE, default=256, show_default=True, help="Tokens of an answer."),
    static=click.option("--static", is_flag=True, help="Read all prompts, then decode: no continuous batching."),
)  # fmt: skip
formats_options = grouped(
    "formats", make_formats,
    dtype=click.option("--dtype", default="bf16", show_default=True, help="Format of the arithmetic and of activations."),
    weights=click.option("--weights", help="Storage format of the weights, such as int4_g128 (default: --dtype)."),
    kv=click.option("--kv", help="Storage format of the cache (default: --dtype, 16 bit at least)."),
)  # fmt: skip
layout_options = grouped(
    "layout", make_layout,
    tp=click.option("--tp", type=POSITIVE, default=1, help="Tensor-parallel devices."),
    pp=click.option("--pp", type=POSITIVE, default=1, help="Pipeline stages."),
    dp=click.option("--dp", type=POSITIVE, default=1, help="Replicas."),
    ep=click.option("--ep", type=POSITIVE, default=1, help="Devices that the experts are split over."),
    cp=click.option("--cp", type=POSITIVE, default=1, help="Context-parallel devices."),
    sequence=click.option("--sequence", is_flag=True, help="Sequence parallelism: norms split over tensor-parallel devices too."),
    shard=click.option("--shard", type=click.IntRange(0, 3), default=0, help="With --train: ZeRO stage that replicas split (3: FSDP)."),
)  # fmt: skip
train_options = grouped(
    "job", make_job,
    train=click.option("--train", is_flag=True, help="A training step instead, with --batch sequences over all devices."),
    tokens=click.option("--tokens", type=POSITIVE, help="With --train: tokens of a sequence (default 4096)."),
    micro=click.option("--micro", type=POSITIVE, help="With --train: sequences of a microbatch (default 1)."),
    recompute=click.option("--recompute", type=click.Choice(["none", "selective", "full"]), help="With --train: activations computed again (default none)."),
    interleaved=click.option("--interleaved", type=POSITIVE, help="With --train: chunks of layers per pipeline stage (default 1)."),
)  # fmt: skip

draft_options = grouped(
    "draft", make_draft,
    draft=click.option("--draft", metavar="NAME_OR_CONFIG", help="Speculative decoding: the model that drafts."),
    drafted=click.option("--drafted", type=POSITIVE, help="With --draft: tokens it proposes in a step (default 4)."),
    accepted=click.option("--accepted", type=click.FloatRange(0, 1), help="With --draft: share of them that is accepted (default 0.7)."),
)  # fmt: skip


@command()
@click.argument("name", metavar="NAME_OR_CONFIG")
@click.argument("words", metavar="", nargs=-1)
@later_machines_options
@load_options
@formats_options
@layout_options
@train_options
@draft_options
@click.option(
    "--software",
    metavar="NAME",
    help="What runs the model: vllm or sglang (the default, a usual serving engine), tensorrt-llm, gpt-fast.",
)
@click.option(
    "--curve",
    metavar="NAME=VALUES",
    help="Throughput and latency for batch=1..512, prompt=..., generate=...; scaling for devices=1..8 or tp=, pp=, cp=, ep=; with --train dp= too",
)
@click.option(
    "--slo",
    multiple=True,
    metavar="LIMIT",
    help="Longest times, ttft=500ms tpot=30ms: the best batch and layout that keeps them.",
)
@click.option("--fit", is_flag=True, help="The cheapest layout on each of several machines; with --price by cost.")
@click.option("--devices", type=POSITIVE, help="With --slo or --fit: devices at most (default 8).")
@click.option("--price", metavar="PRICES", help="Per device and hour: 2.5, or h100-sxm=2.5,h200-sxm=3.5.")
@click.option(
    "--chart", type=click.Choice(CHARTS), help="Draw this, in the terminal or to --out (default there: roofline)."
)
@click.option("--ceilings", type=CEILINGS, help=CEILINGS_HELP)
@verbose_option
@picture_output
def model(
    name: str, words: tuple[str, ...], load_asked: Callable[[], list[Machine]], load: Load, formats: Formats, layout: Layout, job: dict[str, Any] | None, draft: tuple[str, int, float] | None, software: str | None,
    curve: str | None, slo: tuple[str, ...], fit: bool, devices: int | None, price: str | None, chart: str | None, ceilings: str | None,
    verbose: bool, output: Output,
) -> None:  # fmt: skip
    """Predict how fast an LLM is served or trained.

    NAME_OR_CONFIG is one of the built-in models (`ridgeline model list`) or a Hugging Face config.json.

    \b
      ridgeline model llama-3-70b --on h200-sxm --tp 4 --prompt 2048 --generate 256 --batch 32
      ridgeline model llama-3-70b --on h200-sxm --tp 4 --curve batch=1..512
      ridgeline model llama-3-70b --on h200-sxm --tp 4 --draft llama-3.2-1b --drafted 4 --accepted 0.7
      ridgeline model llama-3-70b --on h100-sxm,h200-sxm --slo ttft=500ms tpot=30ms --price h100-sxm=2.5,h200-sxm=3.5
    """
    if name == "list":
        list_models(words, output)
        return
    refuse_chart_on_data(output, chart)
    level = service_level((*slo, *words))
    architecture, machines = named(name), load_asked()
    if job is not None:
        refuse_serving(
            {"slo": level, "fit": fit, "draft": draft, "software": software, "static": load.static, "price": price}
        )
        present_training(architecture, machines, int(load.batch), job, formats, layout, ceilings, curve, chart, output)
        return
    if level is not None or fit:
        refuse({"curve": curve, "chart": chart, "draft": draft}, "with --slo or --fit, which have a table of their own")
        refuse(typed("batch"), "with --slo or --fit, which choose the batch")
        given = None if layout.devices == 1 else (layout,)
        present_choices(
            architecture, machines, load, formats, level, given, software, prices(price, machines), devices or 8, output
        )
        return
    refuse({"devices": devices}, "without --slo or --fit")
    from ...prediction.models.result import predict_model

    made = [predict_model(architecture, machine, load, formats, layout, software, ceilings) for machine in machines]
    if curve is not None:
        refuse({"chart": chart, "draft": draft}, "with --curve, which has a chart of its own")
        present_curve(made, curve, output)
    elif len(made) > 1:
        refuse({"chart": chart, "draft": draft}, "with several machines")
        present_machines(made, prices(price, machines), output)
    elif draft is not None:
        refuse({"chart": chart, "price": price}, "with --draft")
        present_draft(made[0], named(draft[0]), *draft[1:], output)
    else:
        present_model(made[0], prices(price, machines).get(machines[0].name), chart, verbose, output)


# -- from words to values --------------------------------------------------------------------------------------


def named(name: str) -> Architecture:
    from ...programs.models.load import architecture

    return architecture(name)


def list_models(words: Sequence[str], output: Output) -> None:
    if words:
        raise InputError(f"`ridgeline model list` lists all models and takes no words, got '{words[0]}'")
    present_list(output)


def refuse_serving(options: dict[str, Any]) -> None:
    """What belongs to serving, where a training step is asked for."""
    refuse({**options, **typed("kv")}, "with --train")
    refuse(typed("prompt", "generate"), "with --train, where --tokens is the length of a sequence")


def typed(*names: str) -> dict[str, bool]:
    """Which of these options, that have defaults, the command line has."""
    context = click.get_current_context()
    return {name: context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in names}


def service_level(words: Sequence[str]) -> ServiceLevel | None:
    """`ttft=500ms tpot=30ms` as seconds; None without words."""
    from ...prediction.models.choice import ServiceLevel

    limits: dict[str, float] = {}
    for word in (part for text in words for part in text.replace(",", " ").split()):
        key, equals, value = word.partition("=")
        if not equals or key not in LEVELS:
            raise InputError(f"'{word}' is not a limit; write ttft=500ms or tpot=30ms after --slo")
        limits[key] = quantity(f"--slo {key}", value, "s") or 0.0
        if limits[key] <= 0:
            raise InputError(f"--slo {word}: give a time above zero, such as {key}=500ms")
    return ServiceLevel(**limits) if limits else None


def prices(text: str | None, machines: Sequence[Machine]) -> dict[str, float]:
    """One price for all machines, or one by name."""
    if not text:
        return {}
    by_name: dict[str, float] = {}
    for word in text.split(","):
        key, equals, value = word.rpartition("=")
        try:
            amount = float(value)
        except ValueError:
            amount = -1.0
        if not amount > 0 or amount == float("inf"):
            raise InputError(
                f"--price {word}: give a number above zero per device and hour, such as 2.5 or h100-sxm=2.5"
            )
        by_name |= {key: amount} if equals else {machine.name: amount for machine in machines}
    unknown = [key for key in by_name if key not in {machine.name for machine in machines}]
    if unknown:
        raise InputError(f"--price names {unknown[0]}, which is not among the machines of --on")
    return by_name
