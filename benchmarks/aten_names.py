"""Lists of torch's operators by what they do to their tensors, written as `src/ridgeline/programs/aten/names.py`.

    python benchmarks/aten_names.py

Needs torch. For every operator of the namespace aten, overloads together:

pointwise   some overload has the tag `pointwise`; with it the number of its arguments before those given by keyword, so
            that a tensor at a later place is a result to be written
views       every overload returns an alias of an argument and writes none
composite   every overload that returns new tensors is implemented by calls of other operators (CompositeImplicitAutograd,
            and no kernel of its own for the CPU)
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src" / "ridgeline" / "programs" / "aten" / "names.py"
HEADER = '''"""Operators of torch {version} by what they do to their tensors, from its own tags and schemas.

Written by benchmarks/aten_names.py; how each list is made is described there. Do not edit.
"""

from __future__ import annotations
'''


def lists() -> tuple[dict[str, int], list[str], list[str], str]:
    import torch

    overloads = defaultdict(list)
    for name in torch._C._dispatch_get_all_op_names():
        space, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        packet = getattr(torch.ops.aten, base, None) if space == "aten" else None
        operator = getattr(packet, overload or "default", None)
        if operator is not None and isinstance(operator, torch._ops.OpOverload):
            overloads[base].append(operator)
    pointwise = {
        base: max(sum(not arg.kwarg_only for arg in item._schema.arguments) for item in listed if _pointwise(item))
        for base, listed in overloads.items()
        if any(_pointwise(item) for item in listed)
    }
    views = [base for base, listed in overloads.items() if all(map(_view, listed))]
    composite = [base for base, listed in overloads.items() if base not in views and _composite(listed)]
    return pointwise, views, composite, torch.__version__.partition("+")[0]


def _pointwise(operator: object) -> bool:
    import torch

    return torch.Tag.pointwise in operator.tags


def _view(operator: object) -> bool:
    schema = operator._schema
    writes = any(arg.alias_info and arg.alias_info.is_write for arg in (*schema.arguments, *schema.returns))
    return not writes and bool(schema.returns) and all(item.alias_info is not None for item in schema.returns)


def _composite(overloads: list[object]) -> bool:
    """Overloads that write to a given tensor (`out`) are left aside, unless there are no others."""
    import torch

    has = torch._C._dispatch_has_kernel_for_dispatch_key
    fresh = [item for item in overloads if not any(arg.is_out for arg in item._schema.arguments)]
    return all(
        has(item.name(), "CompositeImplicitAutograd") and not has(item.name(), "CPU") for item in fresh or overloads
    )


def text(name: str, words: list[str]) -> str:
    lines = textwrap.wrap(" ".join(sorted(words)), 116, break_long_words=False, break_on_hyphens=False)
    return f'\n{name} = """\n' + "\n".join(lines) + '\n"""\n'


def main() -> None:
    pointwise, views, composite, version = lists()
    parts = [HEADER.format(version=version)]
    parts.append(text("POINTWISE", [f"{name}:{places}" for name, places in pointwise.items()]))
    parts.append(text("VIEWS", views))
    parts.append(text("COMPOSITE", composite))
    TARGET.write_text("".join(parts), encoding="utf-8")
    print(f"{len(pointwise)} pointwise, {len(views)} views, {len(composite)} composite operators of torch {version}")


if __name__ == "__main__":
    main()
