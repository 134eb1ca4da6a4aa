"""Work of kernels that a compiler made: every tensor that such a kernel is given is moved once.

    bytes = sum over tensors of their size      flops = one per element of the largest tensor and fused operator

The tensors are the kernel's pointers: inputs, outputs, and those that are both. Intermediates stay in registers, which is
the point of the fusion, so that they have no bytes. The last tensor is the output, written; the others are read. A kernel
with fewer large tensors than its operators have operands updates its first one in place, which is read and written. Of a
table that rows are gathered from, only as much as the largest other tensor is read.
"""

from __future__ import annotations

import re
from math import prod

from ...core.errors import InputError
from ...core.timeline import Activity, Site, Tensor
from ...core.work import Work
from ...prediction.merged import merged_work
from ...programs.aten.formats import format_of

_TRITON = re.compile(r"^triton_(poi|red|per|tem|for|spl)?")
GATHERS = frozenset({"embedding", "index", "gather", "index_select"})
SPECIAL = frozenset({"gelu", "gelu_backward", "erf", "exp", "tanh", "sigmoid", "silu", "rsqrt", "pow", "log"})
POINTWISE, REDUCTIONS, TEMPLATES = "poi", ("red", "per"), "tem"


def is_compiled(site: Site, ran: Activity) -> bool:
    """Whether the kernel was made by a compiler for this program."""
    return bool(site.fused) or bool(_TRITON.match(site.call.name)) or bool(_TRITON.match(ran.name))


def sort_of(name: str) -> str:
    """`poi`, `red`, `per`, `tem` of a kernel of torch.compile; empty for others."""
    match = _TRITON.match(name)
    return (match[1] or "") if match else ""


def compiled_work(site: Site, ran: Activity) -> tuple[Work | None, str]:
    """The bytes of its tensors, and a flop per element and fused operator."""
    call, sort = site.call, sort_of(site.call.name) or sort_of(ran.name)
    if sort == TEMPLATES:
        return None, f"{call.name}: a matrix template of the compiler, whose sizes the trace does not have"
    tensors = [tensor for tensor in call.tensors if prod(tensor.shape) > 0]
    if not tensors:
        return None, "the tensors of the compiled kernel were not recorded"
    try:
        return _moved(site, tensors, sort), ""
    except InputError as error:
        return None, str(error)


def _moved(site: Site, tensors: list[Tensor], sort: str) -> Work:
    widest = max(tensors, key=lambda tensor: prod(tensor.shape))
    formats = [format_of(tensor.dtype) for tensor in tensors]
    common = format_of(widest.dtype) or next((row for row in formats if row is not None), None)
    if common is None:
        raise InputError("the formats of the compiled kernel's tensors were not recorded")
    counts = [prod(tensor.shape) for tensor in tensors]
    if any(name in GATHERS for name in site.fused) and len(counts) > 2:
        largest, second = sorted(counts)[:-3:-1]
        counts = [second if number == largest else number for number in counts]
    sizes = [number * (row or common).bytes for number, row in zip(counts, formats, strict=True)]
    reads = {f"in{place}": size for place, size in enumerate(sizes[:-1])}
    writes = {"out": sizes[-1]}
    if _in_place(site, counts, sort):
        reads, writes = {f"in{place}": size for place, size in enumerate(sizes)}, {"in0": sizes[0]}
    elements = float(max(counts))
    special = SPECIAL.intersection(site.fused)
    return merged_work(
        reads,
        writes,
        max(len(site.fused), 1) * elements,
        elements * len(special),
        common.arithmetic,
        elements,
        costly="gelu" in special,
        single=sort in REDUCTIONS and counts[-1] == 1,
    )


def _in_place(site: Site, counts: list[int], sort: str) -> bool:
    """Whether the first tensor is read and written: a derivative takes two tensors and gives one, a function one of each."""
    large = sum(number == max(counts) for number in counts)
    derivative = any(name.endswith("_backward") for name in site.fused)
    return sort == POINTWISE and counts[0] == max(counts) and large < (3 if derivative else 2)
