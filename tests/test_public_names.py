"""What `import ridgeline as rl` gives: every public name, each loaded when it is first used."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ridgeline as rl
from ridgeline.core.observation import Observation
from ridgeline.core.work import Step


def test_the_table_of_lazy_names_and_the_public_list_agree() -> None:
    assert {*rl._LAZY, "__version__"} == set(rl.__all__)
    assert dir(rl) == sorted(rl.__all__)


@pytest.mark.parametrize("name", rl.__all__)
def test_every_public_name_loads(name: str) -> None:
    assert getattr(rl, name) is not None


def test_an_entry_may_be_a_module() -> None:
    from ridgeline.programs import ops

    assert rl.ops is ops


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'ridgeline' has no attribute 'nothing'"):
        rl.nothing  # noqa: B018


def test_a_name_loads_only_what_it_needs() -> None:
    code = "import ridgeline, sys; ridgeline.RidgelineError; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_public_functions_have_hints_and_docstrings() -> None:
    """What an editor shows: real types for every parameter, and a docstring."""
    for name in rl.__all__:
        value = getattr(rl, name)
        if inspect.isfunction(value):
            assert inspect.getdoc(value), name
            signature = inspect.signature(value)
            assert signature.return_annotation is not inspect.Signature.empty, name
            assert all(param.annotation is not inspect.Parameter.empty for param in signature.parameters.values()), name


def test_type_checkers_see_every_public_name() -> None:
    tree = ast.parse(Path(rl.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    imported = {alias.asname or alias.name for node in block.body for alias in getattr(node, "names", ())}
    assert imported - {"Any"} | {"__version__"} == set(rl.__all__)


def test_an_op_keeps_the_signature_and_docstring_of_its_function() -> None:
    assert list(inspect.signature(rl.ops.gemm).parameters)[:4] == ["m", "n", "k", "dtype"]
    assert str(inspect.getdoc(rl.ops.matmul)).startswith("C[m,n] = A[m,k] B[k,n]")
    assert rl.ops.gemm.__name__ == "gemm"


# -- a machine may be a name --------------------------------------------------------------------------------------


def test_a_machine_may_be_a_name_wherever_one_is_taken() -> None:
    work, machine = rl.ops.gemm(8, 8, 8), rl.machine("h200-sxm")
    assert rl.predict(work, "h200-sxm").time == rl.predict(work, machine).time
    assert rl.predict(work, "H100").machine.name == "h100-sxm"
    sizes = {"m": [8, 16], "n": [8, 8], "k": [8, 8]}
    fields = rl.predict_cases(rl.ops.gemm, "h200-sxm", sizes, ["time_us"])
    assert list(fields["time_us"]) == list(rl.predict_cases(rl.ops.gemm, machine, sizes, ["time_us"])["time_us"])
    assert rl.plot("h200-sxm").document() == rl.plot(machine).document()
    assert {"h200-sxm", "a100-sxm-80gb"} <= set(rl.machine_names())


def test_an_op_that_was_not_called_is_no_work() -> None:
    with pytest.raises(rl.RidgelineError, match=r"predict takes work, such as ops\.gemm\(m=8, n=8, k=8\).*got Op"):
        rl.predict(rl.ops.gemm, "h200-sxm")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "note"),
    [
        (lambda: rl.predict(rl.ops.gemm(8, 8, 8), "h10"), "ridgeline.machine_names() lists them"),
        (lambda: rl.ops.find("gem"), "dir(ridgeline.ops) lists them"),
    ],
)
def test_errors_speak_of_python_in_python(call: Callable[[], object], note: str) -> None:
    with pytest.raises(rl.RidgelineError) as caught:
        call()
    assert note in caught.value.__notes__[0]
    assert "did you mean" in str(caught.value)


# Packages that Python and the command line share; the profilers quote the flags of other tools.
NEUTRAL = ("core", "machines", "programs", "prediction", "render")


def test_no_message_of_the_library_quotes_a_flag_of_the_command_line() -> None:
    quoting = []
    for package in NEUTRAL:
        for path in (Path(rl.__file__).parent / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if (
                    isinstance(node, ast.Raise)
                    and "--" in (said := ast.unparse(node))
                    and re.search(r"(?<![\w-])--[a-z]", said)
                ):
                    quoting.append(f"{path.name}:{node.lineno}")
    assert quoting == []


# -- what Python prints --------------------------------------------------------------------------------------------

GEMM = rl.predict(rl.ops.gemm(m=4096, n=14336, k=4096), "h200-sxm")
STEPS = rl.Program(tuple(Step(f"layer{place}", rl.ops.gemm(64, 64, 64)) for place in range(100)))
SEEN = Observation("gemm", "gemm", (1e-3, 2e-3), work=GEMM.work)


@pytest.mark.parametrize(
    ("value", "first"),
    [
        (rl.machine("h200-sxm"), r"h200-sxm: hbm [\d.]+ TB/s · tensor.bf16 \d+ TFLOP/s · ridge [\d.]+ FLOP/B"),
        (rl.two_number(1e12, 1e11), r"two-number: memory 100 GB/s · peak 1 TFLOP/s · ridge 10 FLOP/B"),
        (rl.Machine("bare"), "bare: no ceilings known"),
        (GEMM, r"\d+ us \[\d+-\d+\] · compute-bound \(tensor.bf16\) · \d+ % of roofline · MFU \d+ % · MBU \d+ %"),
        (rl.predict(rl.ops.gemv(m=8192, n=8192), "h200"), r"[\d.]+ us \[[\d.]+-[\d.]+\] · memory-bound \(HBM\) · .* · MFU [\d.]+ % · MBU \d+ %"),
        (rl.predict(rl.ops.copy(n=8), "h200-sxm"), r".* · overhead-bound \(launch\) · "),
        (rl.predict(rl.ops.gemm(2 ** np.arange(14), 4096, 4096), "h200"), r"14 cases on h200-sxm: [\d.]+ us to [\d.]+ us"),
        (rl.predict(rl.ops.gemm(np.ones((2, 3)), 8, 8), "h200"), r"6 cases on h200-sxm: "),
        (rl.predict(STEPS, "h200"), r"[\d.]+ us \[.*\] · 100 steps · .* of roofline on h200-sxm"),
        (rl.predict(rl.Program(), "h200"), "nothing to predict on h200-sxm"),
        (rl.ops.gemm(4096, 14336, 4096), r"gemm m=4096 n=14336 k=4096 in bf16: 481 GFLOP, 268 MB, AI 1,79"),
        (rl.ops.gemm(np.arange(1, 9), 8, 8), r"gemm m=1\.\.8 n=8 k=8 in bf16: 128 FLOP to 1.02 kFLOP, "),
        (rl.ops.attention(1, 8, 64, 64, variant="standard"), r"attention .* variant=standard in bf16: "),
        (rl.Work(), "work: 0 FLOP, 0 B"),
        (STEPS, "program: 100 steps"),
        (SEEN, r"gemm: median 1.5 ms, best 1 ms \(2 samples, spread .* %; ridgeline\)"),
        (rl.ops.gemm, r"gemm\(m, n, k, dtype=bf16"),
        (rl.reconcile(GEMM, [SEEN]), ""),
        (rl.plot("h200-sxm", GEMM), ""),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)  # fmt: skip
def test_results_print_in_a_few_lines(value: object, first: str) -> None:
    text = repr(value)
    assert re.match(first, text), text
    assert text.count("\n") < 8
    assert len(text) < 2000


def test_no_part_of_a_result_prints_the_timings_behind_it() -> None:
    report = rl.reconcile(GEMM, [SEEN])
    for part in (GEMM.bounds, GEMM.expected, GEMM.steps, GEMM.machine.levels, report.items, report.joined):
        assert len(repr(part)) < 20_000
    assert len(repr(next(iter(GEMM.machine.fitted.values())))) < 3000


def test_a_low_confidence_of_the_bound_is_named() -> None:
    sweep = (rl.predict(rl.ops.gemm(m, 4096, 4096), GEMM.machine) for m in range(128, 512, 4))
    near = min(sweep, key=lambda prediction: float(prediction.sure))  # at the ridge
    assert float(near.sure) < 0.95
    assert re.search(r"balanced \(compute \d+ %, memory \d+ %\) · |\), \d\d % confidence · ", repr(near))
    assert "confidence" not in repr(GEMM).splitlines()[0]
