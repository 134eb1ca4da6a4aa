"""Coefficients of other GPUs: whose a machine takes, and what its clock, cores and power make of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeline as rl
from ridgeline.core.families import Key, formula
from ridgeline.core.figure import Figure
from ridgeline.core.fitted import OVER_MEMORY, Fitted
from ridgeline.core.machine import Machine
from ridgeline.machines import coefficients as files
from ridgeline.machines import load as machines
from ridgeline.machines import power, transfer
from ridgeline.machines.defaults import defaults
from ridgeline.machines.files import names
from ridgeline.prediction.kernel_steps import ran_with

GPUS = [name for name in names() if machines.load(name).kind == "gpu"]
TABLES = files._tables(files.DEFAULTS)
LENDING = {
    "hopper": "h200-sxm", "ampere": "a100-sxm-80gb", "volta": "v100-pcie-32gb", "turing": "t4", "ada": "l4", "cdna": "mi100",
}  # fmt: skip


def row(family: str, **values: float) -> Fitted:
    coefficients = {name: c.default for name, c in formula(Key(family, "bf16")).coefficients.items()} | values
    return Fitted(coefficients, 0.1, 0.2, 0.9, 1.1, 20, "a test")


def with_clock(machine: Machine, hertz: float) -> Machine:
    return replace(machine, clocks={"vector": Figure("Hz", stated=hertz)})


def test_figures_of_lenders_are_those_of_the_catalog() -> None:
    for architecture, name in LENDING.items():
        lender = machines.load(name)
        assert power.base(lender.architecture) == architecture
        assert defaults("lender_clock")[architecture] == transfer.clock(lender)
    for architecture, figure in defaults("lender_per_cycle").items():
        assert figure == pytest.approx(transfer.per_cycle(machines.load(LENDING[architecture])), rel=1e-4)
    for architecture, name in (LENDING | {"hopper": "h100-sxm", "ampere": "a100-pcie-40gb"}).items():
        fed = transfer.bytes_per_cycle(machines.load(name))
        assert defaults("lender_bytes_per_cycle")[architecture] == pytest.approx(fed, rel=1e-3)
    fed = transfer.bytes_per_cycle(machines.load("h200-sxm"))
    assert defaults("rows_bytes_per_cycle")["hopper"] == pytest.approx(fed, rel=1e-3)
    for architecture, name in LENDING.items():
        share = defaults("lender_powered").get(architecture, 1.0)
        assert share == pytest.approx(power.powered(machines.load(name), "fp32"), rel=1e-3), name
    measured = machines.load("h200-sxm").energy
    assert defaults("vector_energy")["hopper"] == pytest.approx(measured["flop.vector.fp32"].measured, rel=1e-3)
    for dtype, joules in defaults("matrix_energy_hopper").items():
        assert joules == pytest.approx(measured[f"flop.tensor.{dtype}"].measured, rel=1e-3)
        assert defaults("matrix_powered")[dtype] == pytest.approx(power.powered(machines.load("h200-sxm"), dtype), 1e-3)
    assert defaults("power")["per_core"] == pytest.approx(700 / 132, rel=1e-3)
    share = measured["static"].measured / machines.load("h200-sxm").tdp.stated  # type: ignore[operator]
    assert defaults("static_power")["share"] == pytest.approx(share, abs=0.001)


def test_a_board_with_less_power_per_core_multiplies_at_a_lower_clock() -> None:
    """Two H100 PCIe were reported at 472 to 504 TFLOP/s in bf16 and 226 to 243 in tf32, without a pause (machines/power.py)."""
    board = machines.load("h100-pcie")
    assert 460e12 < power.powered(board, "bf16") * 756e12 < 504e12
    assert 226e12 < power.powered(board, "tf32") * 378e12 < 243e12
    assert power.saved(machines.load("h100-sxm")) == power.saved(machines.load("gh200")) == defaults("power")["saved"]
    assert power.powered(machines.load("rtx-4090"), "bf16") == power.powered(machines.load("b200-sxm"), "bf16") == 1.0
    for side, reported in ((4096, 496e12), (8192, 493e12), (10240, 487e12)):
        made = rl.predict(rl.ops.gemm(m=side, n=side, k=side), board)
        assert made.low <= 2 * side**3 / reported <= made.high
        assert made.time == pytest.approx(2 * side**3 / reported, rel=0.15)


@pytest.mark.parametrize(("name", "reported"), [("l4", 57e12), ("l40s", 269e12)])
def test_boards_of_ada_multiply_as_fast_as_their_power_pays_for(name: str, reported: float) -> None:
    made = rl.predict(rl.ops.gemm(m=8192, n=8192, k=8192), name)
    assert made.low <= 2 * 8192**3 / reported <= made.high
    assert made.time == pytest.approx(2 * 8192**3 / reported, rel=0.15)


def test_a_board_of_turing_multiplies_as_fast_as_its_power_pays_for() -> None:
    """24 TFLOP/s were reported of 100 products without a pause, 42 of the best size with pauses; 54 was predicted of 65."""
    made = rl.predict(rl.ops.gemm(m=4096, n=4096, k=4096, dtype="fp16"), "t4")
    assert made.low <= 2 * 4096**3 / 24e12 <= made.high
    assert 24e12 < 2 * 4096**3 / made.time < 42e12
    t4 = machines.load("t4")
    assert power.powered(t4, "bf16") == power.powered(t4, "fp16")  # whose kernels are those timed in bf16
    assert power.powered(machines.load("v100-sxm2-32gb"), "fp16") == 1.0


def test_kernels_below_what_the_power_pays_for_keep_their_share() -> None:
    move = transfer.Move.between("hopper", machines.load("h100-pcie"))
    slow, fast = (move.adapted(Key("gemm", "bf16"), row("gemm", compute=share, tile=1.0)) for share in (0.5, 0.9))
    assert slow.coefficients["compute"] == 0.5
    assert fast.coefficients["compute"] == pytest.approx(0.9 * 0.623 / 0.725, rel=0.01)
    assert fast.high > slow.high
    same = transfer.Move.between("hopper", machines.load("h100-sxm"))
    alike = same.adapted(Key("gemm", "bf16"), row("gemm", compute=0.9))
    assert alike.coefficients["compute"] == pytest.approx(0.9, 1e-3)
    assert alike.high == pytest.approx(row("gemm").high, 1e-4)


@pytest.mark.parametrize(
    ("name", "most"), [("rtx-4090", transfer.MAX_FILLED), ("b200-sxm", 0.1), ("v100-sxm2-32gb", 0.7)]
)
def test_kernels_that_do_not_fill_the_matrix_units_do_as_many_flops_per_cycle(name: str, most: float) -> None:
    """Those of 3 channels, or of older instructions: a slower unit is filled better, and a faster one worse."""
    machine = machines.load(name)
    move = transfer.Move.between("hopper", machine)
    lent = move.adapted(Key("conv", "bf16"), row("conv", compute=0.2)).coefficients["compute"]
    assert lent == pytest.approx(
        min(0.2 * defaults("lender_per_cycle")["hopper"] / transfer.per_cycle(machine), most), rel=0.05
    )
    filled = move.adapted(Key("conv", "bf16"), row("conv", compute=0.6)).coefficients["compute"]
    assert filled == 0.6
    assert move.adapted(Key("conv", "fp32"), row("conv", compute=0.2)).coefficients["compute"] <= 0.2


@pytest.mark.parametrize("name", ["b200-sxm", "rtx-4090"])
def test_kernels_compiled_for_each_gpu_keep_their_share_of_its_peak(name: str) -> None:
    move, lent = transfer.Move.between("hopper", machines.load(name)), row("attention", compute=0.35)
    shares = [
        move.adapted(Key.parse(f"attention.bf16@{path}"), lent).coefficients["compute"] for path in ("triton", "flash2")
    ]
    assert shares[0] == 0.35
    assert shares[1] != 0.35


def rate(machine: Machine, key: Key, lent: Fitted, side: float = 64.0) -> float:
    """Flops a second of a product's tile, from a Hopper's coefficients."""
    found = transfer.Move.between("hopper", machine).adapted(key, lent).coefficients
    peak = machine.peaks["tensor.bf16"]
    return (peak.stated or peak.value() or 0.0) * found["compute"] * side / (side + found["tile"])


@pytest.mark.parametrize("name", ["b200-sxm", "rtx-4090", "mi300x", "a100-sxm-40gb", "h20"])
def test_kernels_that_reach_the_same_on_the_lender_reach_the_same_elsewhere(name: str) -> None:
    """Fits of odd rows on an H200: 0.53 of the peak with tiles of 200, or 0.29 with tiles of 89: an eighth at a usual tile, either way."""
    key, machine = Key.parse("gemm-odd.bf16"), machines.load(name)
    rates = [rate(machine, key, row("gemm", compute=c, tile=t)) for c, t in ((0.5278, 200.0), (0.292, 88.75))]
    assert rates[0] == pytest.approx(rates[1], rel=0.2)


@pytest.mark.parametrize("name", ["b200-sxm", "rtx-4090", "mi300x"])
@pytest.mark.parametrize("kernel", ["gemm-odd.bf16", "conv.nhwc.fp16", "attention.bf16"])
def test_a_kernel_that_fills_the_units_a_little_better_is_not_moved_otherwise(name: str, kernel: str) -> None:
    key, move = Key.parse(kernel), transfer.Move.between("hopper", machines.load(name))
    shares = [0.01 * step for step in range(20, 100)]
    found = [move.adapted(key, row(key.family, compute=share)).coefficients["compute"] for share in shares]
    jumps = [later / earlier for earlier, later in pairwise(found)]
    assert max(jumps) < 1.25
    assert min(jumps) > 0.8


@given(
    st.sampled_from(["gemm-odd.bf16", "conv.nhwc.bf16"]),
    st.floats(0.05, 1.0),
    st.floats(1.0, 200.0),
    st.floats(1.0, 6.0),
)
def test_a_faster_matrix_unit_never_slows_a_kernel_that_leaves_it_empty(
    kernel: str, compute: float, tile: float, more: float
) -> None:
    one = machines.load("a100-sxm-80gb")
    fast = replace(one, peaks={**one.peaks, "tensor.bf16": Figure("flop/s", stated=312e12 * more)})
    key = Key.parse(kernel)
    lent = row(key.family, compute=compute, tile=tile)
    for side in (16.0, 64.0, 128.0):
        assert rate(one, key, lent, side) <= rate(fast, key, lent, side) * (1 + 1e-9)


def test_every_lender_has_its_two_tables_and_nothing_else_is_shipped() -> None:
    assert set(TABLES) == {f"{kind} {name}" for name in LENDING for kind in (transfer.WITHIN, transfer.BEYOND)}
    for others in (*transfer.LENDERS.values(), transfer.OTHERS):
        assert set(others) <= set(LENDING)


def test_an_architecture_lends_to_its_own_before_others() -> None:
    assert transfer.sources("hopper")[0] == "within hopper"
    assert transfer.sources("blackwell-ultra")[:2] == ("within blackwell", "beyond hopper")
    assert transfer.sources("blackwell-rtx")[0] == "beyond ampere"  # its tensor units have the instructions of Ampere
    assert transfer.sources("unheard-of") == ("within unheard", *(f"beyond {name}" for name in transfer.OTHERS))


@pytest.mark.parametrize("name", GPUS)
def test_borrowed_coefficients_are_within_their_bounds_and_shares_at_most_one(name: str) -> None:
    machine = machines.load(name)
    for key, fitted in machine.fitted.items():
        if fitted.borrowed:
            for coefficient, value in fitted.coefficients.items():
                assert value > 0, f"{name} {key} {coefficient}"
                assert coefficient not in transfer.SHARES or value <= 1.0, f"{name} {key} {coefficient}"


def test_latencies_are_clock_cycles() -> None:
    one = with_clock(Machine("mine", kind="gpu"), defaults("lender_clock")["hopper"] / 2)
    key, lent = Key.parse("decode.full.bf16@vllm"), row("decode")
    found = transfer.Move.between("hopper", one).adapted(key, lent).coefficients
    assert found["split"] == pytest.approx(2 * lent.coefficients["split"])
    shortest = defaults("launch")["gpu"]
    assert found["launch"] == pytest.approx(shortest + 2 * (lent.coefficients["launch"] - shortest))
    assert found["memory"] == lent.coefficients["memory"]
    unknown = transfer.Move.between("hopper", Machine("mine", kind="gpu")).adapted(key, lent).coefficients
    assert unknown == lent.coefficients  # without a clock nothing is known of its cycles


@given(st.sampled_from(sorted(TABLES["beyond hopper"])), st.floats(0.5e9, 4e9), st.floats(1.0, 4.0))
def test_a_faster_clock_never_adds_a_latency(name: str, hertz: float, faster: float) -> None:
    key = Key.parse(name)
    lent = Fitted(**TABLES["beyond hopper"][name])
    slow, fast = (
        transfer.Move.between("hopper", with_clock(Machine("mine", kind="gpu"), clock)).adapted(key, lent).coefficients
        for clock in (hertz, hertz * faster)
    )
    assert all(fast[coefficient] <= value * (1 + 1e-12) for coefficient, value in slow.items())


def test_a_board_with_little_memory_bandwidth_keeps_its_caches() -> None:
    """An L40S has a quarter of an A100's bandwidth for each core and cycle, and an L2 that is not slower for that."""
    key, lent, l40s = Key.parse("gemm.bf16"), row("gemm"), machines.load("l40s")
    found = transfer.Move.between("ampere", l40s).adapted(key, lent).coefficients
    fed = defaults("lender_bytes_per_cycle")["ampere"] / (864e9 / 142 / 2.52e9)
    assert found["reuse"] == pytest.approx(lent.coefficients["reuse"] * fed, rel=1e-3)
    rich = transfer.Move.between("hopper", machines.load("b200-sxm")).adapted(key, lent).coefficients
    assert rich["reuse"] == lent.coefficients["reuse"]


@given(
    st.sampled_from(["gemm.bf16", "decode.full.bf16@vllm", "moe.bf16@vllm"]), st.floats(1e11, 1e13), st.floats(1.0, 8.0)
)
def test_more_bandwidth_never_slows_caches_or_cores(name: str, rate: float, more: float) -> None:
    key = Key.parse(name)
    l40s, lent = machines.load("l40s"), row(key.family)
    rates = []
    for bandwidth in (rate, rate * more):
        found = transfer.Move.between("ampere", l40s.with_figures(bandwidth=bandwidth)).adapted(key, lent).coefficients
        rates.append([found[coefficient] * bandwidth for coefficient in OVER_MEMORY[key.family]])
    assert all(low <= high * (1 + 1e-9) for low, high in zip(*rates, strict=True))


def test_weight_only_products_keep_their_flops_per_cycle() -> None:
    """A Hopper that reaches 36 % of its peak does as many flops per cycle as an A100 that reaches 67 % of its own."""
    key, a100 = Key.parse("moe.bf16-int4@sglang"), machines.load("a100-sxm-80gb")
    found = transfer.Move.between("hopper", a100).adapted(key, row("moe", compute=0.36)).coefficients
    rates = defaults("lender_per_cycle")
    assert found["compute"] == pytest.approx(0.36 * rates["hopper"] / rates["ampere"], rel=1e-3)
    plain = transfer.Move.between("hopper", a100).adapted(Key.parse("moe.bf16@sglang"), row("moe", compute=0.36))
    assert plain.coefficients["compute"] == 0.36


@given(st.floats(10.0, 2000.0), st.floats(1.0, 8.0))
def test_more_power_never_slows_a_vector_product(watts: float, more: float) -> None:
    key, l4 = Key.parse("gemm.fp32"), machines.load("l4")
    low, high = (
        transfer.Move.between("ampere", replace(l4, tdp=Figure("W", stated=power))).adapted(
            key, row("gemm", compute=0.9)
        )
        for power in (watts, watts * more)
    )
    assert low.coefficients["compute"] <= high.coefficients["compute"] <= 0.9


def test_a_board_with_more_power_than_its_lender_reaches_more() -> None:
    """What an L4 reaches is what its 72 W pay for; an L40S has more for each flop."""
    found = transfer.Move.between("ada", machines.load("l40s")).adapted(
        Key.parse("gemm.fp32"), row("gemm", compute=0.3)
    )
    assert found.coefficients["compute"] == pytest.approx(0.3 * (350 / 91.6) / (72 / 30.3), rel=0.01)


def test_boards_short_of_power_reach_what_was_timed_on_them() -> None:
    """From the H200's energy per flop and the board's limit alone; long fp32 products on an L4 reach 0.3 of the peak."""
    key = Key.parse("gemm.fp32")
    shares = {
        name: transfer.Move.between("hopper", machines.load(name))
        .adapted(key, row("gemm", compute=1.0))
        .coefficients["compute"]
        for name in ("l4", "t4", "v100-pcie-32gb", "h100-sxm")
    }
    assert shares["l4"] == pytest.approx(0.33, abs=0.04)
    assert shares["t4"] == pytest.approx(0.49, abs=0.05)
    assert shares["v100-pcie-32gb"] == pytest.approx(1.0, abs=0.01)
    assert shares["h100-sxm"] == 1.0


def test_tensor_products_are_not_held_to_the_energy_of_vector_units() -> None:
    found = transfer.Move.between("hopper", machines.load("v100-pcie-32gb")).adapted(
        Key.parse("gemm.fp16"), row("gemm", compute=0.9)
    )
    assert found.coefficients["compute"] == 0.9


# -- backends ----------------------------------------------------------------------------------------------------------


def test_a_backend_is_served_by_its_own_kernels_then_its_library_then_the_default_path() -> None:
    assert transfer.backends("vllm-0.24.0") == ("vllm-0.24.0", "vllm", "")
    assert transfer.backends("") == ("",)


@pytest.mark.parametrize("name", ["b200-sxm", "gb200", "l40s", "a10", "rtx-pro-6000", "h20"])
@pytest.mark.parametrize("backend", ["vllm-0.24.0", "sglang-0.5.9", "trtllm-1.3.0rc20"])
def test_gpus_never_timed_have_the_kernels_of_named_libraries(name: str, backend: str) -> None:
    work = rl.ops.attention(batch=8, heads=32, kv_heads=8, seq_q=1, seq_kv=4096, head_dim=128, causal=False)
    step = rl.predict(work, machines.load(name), backend=backend).expected[0]
    selected = step.kernels[0].selected
    assert selected.fitted.borrowed
    assert selected.key.backend == transfer.library(backend)
    assert "default path" not in str(step.confidence)
    assert step.low < step.time < step.high


def test_a_library_nobody_timed_has_the_default_path_and_says_so() -> None:
    gemm = rl.ops.gemm(m=512, n=4096, k=4096)
    step = rl.predict(ran_with(gemm, "homemade-1.0"), machines.load("b200-sxm")).expected[0]
    assert "no timings of backend homemade-1.0, default path used" in str(step.confidence)
    assert step.kernels[0].selected.key.backend == ""


@pytest.mark.parametrize(
    ("asked", "timed", "wanted"),
    [
        ("vllm", ("vllm-0.9.1", "vllm-0.24.0", "sglang-0.5.14", ""), "vllm-0.24.0"),  # 24 after 9
        ("vllm", ("vllm", "vllm-0.24.0"), "vllm"),
        ("vllm", ("sglang-0.5.14", ""), "vllm"),
        ("vllm-0.9.1", ("vllm-0.24.0",), "vllm-0.9.1"),
    ],
)
def test_a_library_without_a_version_is_its_newest_that_was_timed(asked: str, timed: list[str], wanted: str) -> None:
    assert transfer.newest(asked, timed) == wanted


@pytest.mark.parametrize(
    ("name", "side", "reported"),
    [("p100-pcie-16gb", 4096, 8.39e12), ("p100-pcie-16gb", 8192, 7.72e12), ("p100-sxm2-16gb", 4096, 8.82e12)],
)
def test_products_in_fp16_on_vector_units_add_up_in_fp32(name: str, side: int, reported: float) -> None:
    """A P100 was predicted at 17.9 TFLOP/s [11.6-18.7] in fp16, the rate of adding up in fp16, which PyTorch does not ask for."""
    half, single = (rl.predict(rl.ops.gemm(m=side, n=side, k=side, dtype=dtype), name) for dtype in ("fp16", "fp32"))
    assert half.low <= 2 * side**3 / reported <= half.high
    assert half.time == pytest.approx(2 * side**3 / reported, rel=0.2)
    assert half.time <= single.time
    assert half.floor == pytest.approx(single.floor / 2, rel=0.02)


@pytest.mark.parametrize(("name", "share"), [("h20", 0.5), ("mi210", 0.7), ("rtx-3090", 0.6)])
def test_few_rows_stay_memory_bound_where_the_ridge_is_lower_than_the_lenders(name: str, share: float) -> None:
    """An H20 took 151 us for 1 to 128 rows of 8192 x 8192, as for whole tiles of 128, and 41 us for a GEMV: tiles that memory hides on a
    lender do not show which smaller ones a library would take."""
    sizes = [1.0, 8.0, 16.0, 32.0]
    times = [rl.predict(rl.ops.gemm(m=m, n=8192, k=8192), name) for m in sizes]
    assert all(made.floor / made.time > share for made in times)
    vector = rl.predict(rl.ops.gemv(m=8192, n=8192), name)
    assert times[0].time < 1.6 * vector.time
    assert transfer.Move.between("hopper", machines.load("h200-sxm")).lower_ridge < 1  # of HBM3e
    assert transfer.Move.between("hopper", machines.load("h100-sxm")).lower_ridge == pytest.approx(1.0, rel=1e-3)
    assert transfer.Move.between("hopper", machines.load("b200-sxm")).lower_ridge > 0.9


@pytest.mark.parametrize(
    ("name", "batch", "side", "head", "reported"),
    [("h20", 2, 2048, 64, 126.1e12), ("b200-sxm", 4, 8192, 128, 1289e12), ("b200-sxm", 2, 16384, 128, 1330e12)],
)
def test_the_softmax_of_attention_takes_a_core_as_many_cycles(
    name: str, batch: int, side: int, head: int, reported: float
) -> None:
    """cuDNN on an H20 (Dao-AILab/flash-attention, issue 1310) was predicted at 61 TFLOP/s; FA4 on a B200 (pull request 2605) at 1373."""
    work = rl.ops.attention(batch=batch, heads=2048 // head, seq_q=side, head_dim=head)
    made = rl.predict(work, name, backend="cudnn")
    assert made.low <= 4 * batch * 2048 * side**2 / reported <= made.high
    lent = row("attention", compute=0.7, softmax=80.0, narrow=1.6)
    machine = machines.load(name)
    faster = transfer.per_cycle(machine) / defaults("lender_per_cycle")["hopper"]
    found = transfer.Move.between("hopper", machine).adapted(Key("attention", "bf16"), lent).coefficients
    assert found["softmax"] == pytest.approx(80 * faster * found["compute"] / 0.7)
    assert 1.0 <= found["narrow"] <= 1.6
