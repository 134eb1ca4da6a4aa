"""Questions of a lesson and their answers: an op, a machine, a model, a batch, energy, links, each as fields by JSON name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.dtypes import dtype as dtype_row
from ...core.units import parse

Fields = dict[str, Any]


def case_work(text: str) -> Any:
    """The work of a case such as `gemm m=1024 n=1024 k=1024 dtype=fp32`."""
    from ...programs.cases import arguments
    from ...programs.ops import find

    name, *words = text.split() or [""]
    op = find(name)
    return op(**op.check(arguments(op, words, sweeps=False)))


def _op(
    name: str,
    on: str,
    ceilings: str | None = None,
    resident: str | None = None,
    engine: str | None = None,
    **sizes: Any,
) -> Fields:
    """One op on a machine: the fields of its prediction, and the bytes of each tensor."""
    from ...core.machine import MAIN
    from ...prediction.predict import predict
    from ...programs.ops import find

    op = find(name)
    work = op(**op.check(sizes))
    (row,) = predict(work, on, ceilings, engine, resident).rows()
    tensors = {tensor: float(size) for tensor, size in work.tensor_sizes().items()}
    moved = {"read": float(work.bytes_at(MAIN, "read")), "written": float(work.bytes_at(MAIN, "write"))}
    return {**row, **moved, "tensors": tensors, "rate": row["flops"] / (row["time_us"] * 1e-6)}


def _machine(
    name: str, dtype: str = "fp16", unit: str = "matrix", ceilings: str | None = None, intensity: float | None = None
) -> Fields:
    """The roofs of a machine in a format, and what they allow at an intensity."""
    from ...machines.load import load

    return _roofs(load(name), dtype, unit, ceilings, intensity)


def _two_numbers(peak: float, bandwidth: float, intensity: float | None = None) -> Fields:
    from ...core.machine import two_number

    return _roofs(two_number(peak, bandwidth), "fp32", "matrix", None, intensity)


def _roofs(machine: Any, dtype: str, unit: str, ceilings: str | None, intensity: float | None) -> Fields:
    from ...core.machine import MAIN
    from ...core.roofline import attainable
    from ...prediction.host import launch_latency

    engine = machine.engine(unit, dtype)
    peak, bandwidth = machine.peak(engine, ceilings), machine.bandwidth(MAIN, ceilings)
    ridge = peak.value / bandwidth.value
    fields: Fields = {
        "name": machine.name, "title": machine.title, "dtype": dtype_row(dtype).name, "engine": engine, "kind": peak.kind,
        "peak": peak.value, "bandwidth": bandwidth.value, "ridge": ridge, "tdp": machine.tdp.value(), "launch": launch_latency(machine), "dispatch": machine.dispatch.value(),
    }  # fmt: skip
    fields["links"] = {link.name: link.per_direction.value() for link in machine.links}
    fields["levels"] = {
        level.name: {"bandwidth": value, "ridge": peak.value / value, "capacity": level.capacity.value()}
        for level in machine.levels
        if (value := level.bandwidth.value(ceilings) or level.bandwidth.value())
    }
    if intensity is not None:
        rate = float(attainable(intensity, peak.value, bandwidth.value))
        side = "compute" if intensity >= ridge else "memory"
        fields |= {"intensity": intensity, "attainable": rate, "bound": side, "share_of_peak": rate / peak.value}
    return fields


def _model(name: str, on: str, **asked: Any) -> Fields:
    """A language model on a machine; the ops of a phase by name."""
    from ...core.documents import to_document
    from ...prediction.models.ask import model

    document: Fields = to_document(model(name, on, **asked))
    for phase in ("prefill", "decode"):
        document[phase]["ops"] = {row["name"].replace(" ", "-"): row for row in document[phase]["ops"]}
    return document


def _critical(sizes: Sequence[int], on: str | None = None, of: float | None = None, **formats: Any) -> Fields:
    """The batch at which a linear layer is compute-bound, on a machine or against a ridge."""
    from ...core.documents import to_document
    from ...machines.load import load
    from ...prediction.turning import critical_batch

    fan_in, fan_out = sizes
    fields: Fields = to_document(critical_batch(fan_in, fan_out, load(on) if on else None, of, **formats))
    return fields


def _generations(names: Sequence[str], dtype: str = "fp16") -> Fields:
    """Peak, bandwidth, ridge and growth of machines, by name."""
    from ...core.documents import to_document
    from ...machines.load import load
    from ...prediction.compare import generations

    rows = generations([load(name) for name in names], dtype, "stated")
    return {row.name: to_document(row) for row in rows}


def _energy(
    name: str, of: float, dtype: str | None = None, per_flop: str | None = None, per_byte: str | None = None, static: str | None = None
) -> Fields:  # fmt: skip
    """Energy of a flop and a byte, their balance, and the work per joule at an intensity."""
    import numpy as np

    from ...machines.load import load
    from ...prediction.extended import energy

    def given(text: str | None, unit: str) -> float | None:
        return None if text is None else parse(text, unit)

    roofline = energy(load(name), dtype, given(per_flop, "J/flop"), given(per_byte, "J/B"), given(static, "W"))
    at = np.asarray([of], dtype=np.float64)
    return {
        "per_flop": roofline.per_flop, "per_byte": roofline.per_byte, "static": roofline.static, "balance": roofline.balance,
        "byte_over_flop": roofline.per_byte / roofline.per_flop, "limit_per_joule": 1 / roofline.per_flop,
        "intensity": of, "work_per_joule": float(roofline.efficiency(at)[0]), "with_static": float(roofline.efficiency(at, True)[0]),
    }  # fmt: skip


def _communication(name: str, dtype: str = "fp16") -> Fields:
    """Links of a machine and network cards, per direction, each with its ridge."""
    from ...machines.load import load
    from ...prediction.extended import communication

    roofline = communication(load(name), dtype)
    links = {link.replace(" ", "-").replace("/s", ""): rate for link, rate in roofline.links.items()}
    ridges = {link: roofline.peak / rate for link, rate in links.items()}
    return {"peak": roofline.peak, "links": links, "ridges": ridges}


def _data_parallel(tokens: float, devices: int, of: float, dtype: str = "bf16") -> Fields:
    """Flops per byte sent in data-parallel training, and the devices up to which it stays above a ridge."""
    from ...prediction.extended import data_parallel_intensity, data_parallel_limit

    width = dtype_row(dtype).bytes
    at = data_parallel_intensity(tokens, devices, width)
    limit = data_parallel_limit(tokens, of, width)
    bound = "compute" if at >= of else "communication"
    return {"intensity": at, "ridge": of, "devices": devices, "limit": limit, "tokens": tokens, "bound": bound}


def _format(name: str) -> Fields:
    row = dtype_row(name)
    return {"name": row.name, "bits": row.bits, "bytes": row.bytes}


def _tile(name: str, dtype: str = "fp32") -> Fields:
    """The largest square tile of which three fit the shared memory of a block."""
    from ...core.roofline import largest_tile
    from ...machines.load import load

    side, limit = largest_tile(load(name), dtype)
    return {"side": side, "capacity": limit, "dtype": dtype_row(dtype).name}


def _band(name: str) -> Fields:
    """The shares of roofline that tuned kernels reach, below which a fault is likely, and above which few kernels are."""
    from ...gaps.sentences import MIN_SHARE_WITHOUT_FAULT, NEAR_ROOFLINE_SHARE
    from ...prediction.simple import TUNED_BAND

    low, high = TUNED_BAND
    return {"name": name, "tuned_low": low, "tuned_high": high, "fault": MIN_SHARE_WITHOUT_FAULT, "near": NEAR_ROOFLINE_SHARE}  # fmt: skip


ANSWERS: dict[str, Callable[..., Fields]] = {
    "op": _op, "machine": _machine, "peak": _two_numbers, "model": _model, "critical": _critical, "generations": _generations,
    "energy": _energy, "communication": _communication, "tokens": _data_parallel, "format": _format, "tile": _tile,
    "band": _band,
}  # fmt: skip
