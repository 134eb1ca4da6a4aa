"""Nsight Compute: the recorded report gives the work, bytes and signs it holds; nothing is counted twice or made up."""

from __future__ import annotations

import csv
import io
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.errors import InputError
from ridgeline.core.observation import Observation
from ridgeline.profilers import load as observe
from ridgeline.profilers import ncu
from ridgeline.profilers.ncu import formulas
from ridgeline.profilers.ncu import kernel as ncu_kernel
from ridgeline.profilers.ncu import metrics as ncu_metrics

NCU = Path(__file__).parents[1] / "fixtures" / "ncu"
PATH = "sm__ops_path_tensor_"


@pytest.fixture(scope="module")
def raw() -> dict[str, Observation]:
    return {item.name: item for item in observe.load(NCU / "h200_raw.csv")}


def table(header: list[str], units: list[str], *rows: list[str]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([header, units, *rows])
    return out.getvalue()


def one(tmp_path: Path, metrics: dict[str, str], units: dict[str, str] | None = None, cc: str = "9.0") -> Observation:
    """A raw page of one kernel with these metrics."""
    given_units = {"gpu__time_duration.sum": "us", **(units or {})}
    metrics = {"gpu__time_duration.sum": "10", **metrics}
    path = tmp_path / "one.csv"
    header = ["ID", "Kernel Name", "CC", *metrics]
    path.write_text(
        table(
            header,
            ["", "", "", *(given_units.get(name, "") for name in metrics)],
            ["0", "kernel", cc, *metrics.values()],
        )
    )
    (found,) = observe.load(path)
    return found


# The recorded report ------------------------------------------------------------------------------------------------


def test_tensor_work_holds_the_padding_of_the_tiles(raw: dict[str, Observation]) -> None:
    assert raw["gemm_bf16_8192"].flops["tensor.bf16"] / (2 * 8192**3) == pytest.approx(1.0156, abs=1e-4)
    gemv = raw["gemv_bf16_1x28672x8192"].flops["tensor.bf16"]
    assert gemv == 8 * 2 * 28672 * 8192  # one row padded to eight
    causal = 4 * 4 * 32 * 4096**2 * 128 / 2  # two products of 2 b h s s d, and half of the square
    assert raw["flash_attention_bf16"].flops["tensor.bf16"] / causal == pytest.approx(1.03, abs=0.005)
    assert raw["gemm_fp64_2048"].flops["tensor.fp64"] == 2 * 2048**3
    assert raw["gemm_fp8_8192"].flops["tensor.fp8"] / (2 * 8192**3) == pytest.approx(1.002, abs=1e-3)


def test_vector_work_comes_back_from_rates_per_cycle(raw: dict[str, Observation]) -> None:
    assert raw["triad_fp32_2^27"].flops["vector.fp32"] == pytest.approx(2 * 2**27, rel=1e-6)  # one multiply-add each
    fp32 = raw["gemm_fp32_4096"].flops
    assert fp32["vector.fp32"] == pytest.approx(2 * 4096**3, rel=1e-3)
    assert fp32["tensor.tf32"] == 0.0
    assert "per_cycle_elapsed x smsp__cycles_elapsed.avg" in raw["triad_fp32_2^27"].defined["flops.vector.fp32"]


def test_bytes_of_memory_and_caches(raw: dict[str, Observation]) -> None:
    triad = raw["triad_fp32_2^27"]
    assert triad.bytes["hbm"] == pytest.approx(3 * 4 * 2**27, rel=0.02)
    # this report counted only what L2 returned: a count of one direction is not passed for the traffic of L2
    assert triad.counters["l2_to_sm"] == pytest.approx(2 * 4 * 2**27, rel=0.01)
    assert "l2" not in triad.bytes
    assert "lts2xbar" in triad.defined["l2_to_sm"]


def test_l1_is_left_out_where_loads_pass_it_by(raw: dict[str, Observation]) -> None:
    gemm = raw["gemm_bf16_8192"]
    assert "l1" not in gemm.bytes
    assert "bytes.l1" not in gemm.defined
    assert any("L1 bytes omitted" in note for note in gemm.notes)
    assert "bytes.l1" in raw["triad_fp32_2^27"].defined


def test_roofs_are_the_dense_ones_at_the_clock_of_the_run(raw: dict[str, Observation]) -> None:
    gemm = raw["gemm_bf16_8192"]
    assert gemm.counters["roof.tensor.bf16"] == pytest.approx(
        132 * 4096 * gemm.conditions["sm_clock"]
    )  # not 8192, the sparse
    assert gemm.conditions["sm_clock"] == pytest.approx(1.565629e9)
    assert gemm.flops["tensor.bf16"] / gemm.median / gemm.counters["roof.tensor.bf16"] == pytest.approx(0.934, abs=1e-3)
    assert raw["gemm_fp8_8192"].counters["roof.tensor.fp8"] == pytest.approx(132 * 8192 * 1.466123e9)
    assert raw["triad_fp32_2^27"].counters["roof.hbm"] == pytest.approx(1504 * 3.199055e9)
    assert "roof.tensor.bf16" not in raw["triad_fp32_2^27"].counters


def test_names_ranges_and_launches(raw: dict[str, Observation]) -> None:
    gemm = raw["gemm_bf16_8192"]
    assert gemm.kernel == "nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_NNT"  # the range is not part of it
    assert gemm.path == ("gemm_bf16_8192",)
    assert gemm.settings == {"grid": [2, 66, 1], "block": [384, 1, 1]}
    assert gemm.conditions["gpu"] == "NVIDIA H200"
    assert gemm.samples == (pytest.approx(1412.448e-6),)


def test_signs_for_a_diagnosis(raw: dict[str, Observation]) -> None:
    gemm = raw["gemm_bf16_8192"].counters
    assert gemm["occupancy"] == pytest.approx(0.14780471)
    assert gemm["occupancy_limit"] == 0.1875  # 12 of 64 warps
    assert (gemm["registers"], gemm["blocks"], gemm["waves"], gemm["sms"]) == (168, 132, 1, 132)
    assert gemm["shared_per_block"] == 189_660
    assert gemm["stall.gmma"] == pytest.approx(4.824481)
    assert gemm["spills"] == 0.0
    assert gemm["sm_active"] == pytest.approx(2130336.727273 / 2211370.151515)
    assert raw["gemm_fp8_8192"].counters["tensor_busy"] == pytest.approx(0.938, abs=1e-3)
    assert raw["softmax_bf16"].counters["special_busy"] > 0.3
    assert any("not in any FLOP count" in note for note in raw["softmax_bf16"].notes)
    assert not any("not in any FLOP count" in note for note in raw["triad_fp32_2^27"].notes)


def test_every_counter_is_a_row_of_the_table(raw: dict[str, Observation]) -> None:
    known = {metric.name for metric in ncu_metrics.METRICS}
    for item in raw.values():
        named = {name for name in item.counters if not name.startswith("roof.")}
        assert named <= known
        assert set(item.flops) | set(item.bytes) <= known
        assert {f"flops.{name}" for name in item.flops} | {f"bytes.{name}" for name in item.bytes} <= set(item.defined)


def test_details_and_raw_pages_agree_kernel_by_kernel(raw: dict[str, Observation]) -> None:
    details = observe.load(NCU / "h200_details.csv")
    assert len(details) == 6
    for item in details:
        twin = raw[item.name]
        assert item.median == pytest.approx(twin.median, rel=4e-3)  # two decimals of 1.41 ms
        assert item.bytes["hbm"] == pytest.approx(twin.bytes["hbm"], rel=0.01)
        assert item.settings == twin.settings
        assert len(item.counters) > 20
        for name, value in item.counters.items():
            assert value == pytest.approx(twin.counters[name], rel=5e-3, abs=5.1e-3), (item.name, name)
        assert item.flops == {}  # that page has none


def test_the_command_of_ridgeline_collects_what_a_diagnosis_needs() -> None:
    gemm, strided, softmax = observe.load(
        NCU / "h200_ranges.csv"
    )  # recorded with the metrics of `metrics("diagnosis")`
    assert gemm.path == ("outer step", "layer:0", "gemm 4096")  # outermost first, a colon in a name survives
    assert gemm.flops["tensor.bf16"] == 2 * 4096**3
    assert gemm.defined["bytes.l2"].startswith("l1tex__m_xbar2l1tex_read_bytes.sum + ")
    assert gemm.counters["tma"] > 0
    assert strided.path == ("outer step", "strided")
    assert strided.counters["sectors_per_load"] == pytest.approx(32)  # each element of a warp elsewhere
    assert strided.counters["sectors_per_store"] == pytest.approx(4)
    assert softmax.path == ()
    assert softmax.name == "at::unnamed::cunn_SoftMaxForwardReg"
    assert softmax.bytes["l1"] == softmax.bytes["l2"] == 2 * 4 * 4096**2
    wanted = {
        metric.name
        for metric in ncu_metrics.METRICS
        if metric.kind == "counter" and any(way.fits(9.0) for way in metric.ways)
    }
    later = {  # asked for since this report was recorded
        "sm_imbalance", "l2_imbalance", "hbm_imbalance", "l2_slice_busy", "enabled_per_instruction", "instructions",
        "thread_instructions", "integer_instructions", "conversions", "atomics", "atomic_busy", "load_requests",
        "store_requests", "wgmma_busy", "mma_busy",
    }  # fmt: skip
    # no metric of its own can be asked for spills; local_sectors tells
    assert wanted - set(gemm.counters) == {"spills", *later}


def test_planted_faults_show_in_their_counters() -> None:
    spill, conflict = observe.load(NCU / "h200_faults.csv")
    assert spill.counters["registers"] == 32  # held down by its launch bounds
    assert 32 * spill.counters["local_sectors"] > 0.9 * spill.bytes["l1"]  # nearly all traffic is spilled registers
    assert conflict.counters["local_sectors"] == 0.0
    # 32 loads per warp in 32 wavefronts each, 4096 x 8 warps: all but one in 32 are conflicts
    assert conflict.counters["bank_conflicts"] == pytest.approx(4096 * 8 * 32 * 31, rel=0.01)
    assert conflict.bytes["shared"] == 128 * conflict.counters["shared_wavefronts"]
    stalls = {name: value for name, value in conflict.counters.items() if name.startswith("stall.")}
    assert max(stalls, key=lambda name: stalls[name]) == "stall.mio_throttle"


def test_metrics_asked_for_by_name_in_long_form() -> None:
    gemm, strided, _ = observe.load(NCU / "h200_metrics.csv")  # the program's own output stands before the table
    assert gemm.flops == {"tensor.bf16": 2 * 4096**3}
    assert gemm.bytes == {"hbm": 174_885_888}
    assert strided.flops == {"tensor.bf16": 0.0}


# Counting -----------------------------------------------------------------------------------------------------------


def test_parents_and_children_are_never_added(tmp_path: Path) -> None:
    parent = f"{PATH}src_bf16_dst_fp32.sum"
    off = [f"{PATH}op_{op}_src_bf16_dst_fp32_sparsity_off.sum" for op in ("hmma", "hgmma")]
    on = [f"{PATH}op_{op}_src_bf16_dst_fp32_sparsity_on.sum" for op in ("hmma", "hgmma")]
    children = {off[0]: "100", off[1]: "600", on[0]: "0", on[1]: "0"}
    both = one(tmp_path, {parent: "700", **children})
    assert both.flops["tensor.bf16"] == 700
    assert both.flops["tensor-sparse.bf16"] == 0
    below = one(tmp_path, children)
    assert below.flops["tensor.bf16"] == 700
    assert "sparsity_off" in below.defined["flops.tensor.bf16"]
    sparse = one(tmp_path, {parent: "700", **children, on[1]: "200"})
    assert sparse.flops["tensor.bf16"] == 500  # the parent holds both kinds
    assert sparse.flops["tensor-sparse.bf16"] == 200
    assert "less the 2:4-sparse" in sparse.defined["flops.tensor.bf16"]
    half = one(tmp_path, {off[0]: "100"})
    assert "tensor.bf16" not in half.flops  # one instruction alone is not the work of a Hopper kernel


def test_instructions_are_operations_on_volta_only(tmp_path: Path) -> None:
    count = {"sm__inst_executed_pipe_tensor.sum": "1000"}
    assert one(tmp_path, count, cc="7.0").flops == {"tensor.fp16": 512_000}
    assert one(tmp_path, count, cc="9.0").flops == {}


def test_half_precision_is_taken_as_packed_and_says_so(tmp_path: Path) -> None:
    base = "smsp__sass_thread_inst_executed_op_h"
    found = one(
        tmp_path, {f"{base}add_pred_on.sum": "10", f"{base}mul_pred_on.sum": "100", f"{base}fma_pred_on.sum": "1000"}
    )
    assert found.flops == {"vector.fp16": 2 * 10 + 2 * 100 + 4 * 1000}
    assert found.defined["flops.vector.fp16"].startswith("2 x ")
    assert any("packed (two numbers)" in note for note in found.notes)


def test_memory_bytes_from_their_parts(tmp_path: Path) -> None:
    found = one(tmp_path, {"dram__bytes_read.sum": "3", "dram__bytes_write.sum": "2"}, {"dram__bytes_read.sum": "Kbyte", "dram__bytes_write.sum": "Mbyte"})  # fmt: skip
    assert found.bytes == {"hbm": 3e3 + 2e6}
    assert (found.counters["hbm_read"], found.counters["hbm_write"]) == (3e3, 2e6)
    assert found.defined["bytes.hbm"] == "dram__bytes_read.sum + dram__bytes_write.sum"


def test_zero_missing_and_not_available_stay_apart(tmp_path: Path) -> None:
    parent = f"{PATH}src_bf16_dst_fp32.sum"
    assert one(tmp_path, {parent: "0"}).flops == {"tensor.bf16": 0.0}
    assert one(tmp_path, {}).flops == {}
    for cell in ("n/a", "(!) nan", "nan", "no data", "-3"):
        found = one(tmp_path, {parent: cell})
        assert found.flops == {}
        assert found.notes == (f"no value in the report: {parent}",)
    assert one(tmp_path, {parent: ""}).notes == ()


def test_a_metric_without_a_value_gives_way_to_the_next_formula(tmp_path: Path) -> None:
    found = one(tmp_path, {"dram__bytes.sum": "n/a", "dram__bytes_read.sum": "3", "dram__bytes_write.sum": "2"})
    assert found.bytes == {"hbm": 5}


def test_rates_that_disagree_with_the_report_are_told(tmp_path: Path) -> None:
    parent = f"{PATH}src_fp16.sum"
    clock = "sm__cycles_elapsed.avg.per_second"
    per_cycle = f"{parent}.per_cycle_elapsed"
    units = {clock: "Ghz"}
    # 1e6 operations in 10 us are 1e11 per second, at 1 GHz 100 per cycle
    assert one(tmp_path, {parent: "1000000", per_cycle: "100", clock: "1"}, units).notes == ()
    assert (
        "the rate in the report 5e+10"
        in one(tmp_path, {parent: "1000000", per_cycle: "50", clock: "1"}, units).notes[0]
    )


def test_instances_behind_a_value_are_passed_over(tmp_path: Path) -> None:
    assert one(tmp_path, {"launch__waves_per_multiprocessor": "1.5 (1; 2)"}).counters["waves"] == 1.5


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        ("", 1), ("ns", 1e-9), ("us", 1e-6), ("usecond", 1e-6), ("msecond", 1e-3), ("s", 1), ("second", 1), ("%", 0.01),
        ("byte", 1), ("Kbyte", 1e3), ("Mbyte", 1e6), ("Gbyte/s", 1e9), ("Tbyte/second", 1e12), ("byte/ns", 1e9),
        ("cycle/nsecond", 1e9), ("cycle/usecond", 1e6), ("1/ns", 1e9), ("/ns", 1e9), ("Ghz", 1e9), ("Mhz", 1e6), ("hz", 1),
        ("inst/cycle", 1), ("Kbyte/block", 1e3), ("register/thread", 1), ("Minst", 1e6), ("parsec", None), ("Xbyte", None),
    ],
)  # fmt: skip
def test_units_in_base_units(unit: str, factor: float | None) -> None:
    found = formulas.unit_factor(unit)
    assert found == (None if factor is None else pytest.approx(factor))


def test_an_unknown_unit_leaves_the_metric_out_and_says_so(tmp_path: Path) -> None:
    found = one(tmp_path, {"dram__bytes.sum": "5"}, {"dram__bytes.sum": "furlong"})
    assert found.bytes == {}
    assert "dram__bytes.sum in 'furlong'" in found.notes[0]


# Files --------------------------------------------------------------------------------------------------------------


def test_decimal_commas_read_the_same(tmp_path: Path) -> None:
    swap = str.maketrans(",.", ".,")
    rows = list(
        csv.reader(line for line in (NCU / "h200_raw.csv").read_text().splitlines() if not line.startswith("=="))
    )
    start = rows[0].index("CC") + 1
    named = {place for place, name in enumerate(rows[0]) if name == "device__attribute_display_name"}
    swapped = [
        [cell.translate(swap) if place >= start and place not in named else cell for place, cell in enumerate(row)]
        for row in rows[2:]
    ]
    path = tmp_path / "german.csv"
    path.write_text(table(rows[0], rows[1], *swapped))
    assert observe.load(path) == observe.load(NCU / "h200_raw.csv")


def test_several_reports_in_one_file(tmp_path: Path) -> None:
    names = ("h200_raw.csv", "h200_details.csv", "h200_ranges.csv")
    path = tmp_path / "all.csv"
    path.write_text("\n==PROF== Disconnected\n".join((NCU / name).read_text() for name in names))
    assert observe.load(path) == [item for name in names for item in observe.load(NCU / name)]


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("h200_raw.csv", 1),
        ("h200_raw.csv", 3),
        ("h200_raw.csv", 900),
        ("h200_details.csv", 9),
        ("h200_metrics.csv", 1),
        ("h200_metrics.csv", 3),
    ],
)
def test_a_cut_file_gives_its_whole_kernels_and_names_the_cut_one(name: str, lost: int, tmp_path: Path) -> None:
    whole = observe.load(NCU / name)
    text = (NCU / name).read_text()
    path = tmp_path / "cut.csv"
    path.write_text(text.rstrip()[:-lost])
    found = observe.load(path)
    assert len(found) == len(whole) - 1
    assert found[1:] == whole[1:-1]
    assert "is truncated and omitted" in found[0].notes[-1]


def test_kernels_without_a_time_are_told(tmp_path: Path) -> None:
    header, units = ["ID", "Kernel Name", "gpu__time_duration.sum"], ["", "", "ns"]
    path = tmp_path / "file.csv"
    path.write_text(table(header, units, ["0", "a", "5"], ["1", "b", "n/a"]))
    (found,) = observe.load(path)
    assert found.notes == ("1 kernels have no time and are omitted",)
    path.write_text(table(header, units, ["0", "a", "0"], ["1", "b", "n/a"]))
    with pytest.raises(InputError, match="2 kernels and no time for any"):
        observe.load(path)
    path.write_text(table(header, units))
    with pytest.raises(InputError, match="has no timings"):
        observe.load(path)


def test_missing_permission_is_named_with_the_way_round(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n")
    with pytest.raises(InputError, match=r"ERR_NVGPUCTRPERM.*--with torch"):
        observe.load(path)
    path.write_text("==ERROR== The application returned an error code (1).\n")
    with pytest.raises(InputError, match=r"error code \(1\).*collect again"):
        observe.load(path)


def test_details_without_their_columns(tmp_path: Path) -> None:
    path = tmp_path / "details.csv"
    path.write_text('"ID","Kernel Name","Metric Name"\n"0","a","Duration"\n')
    with pytest.raises(InputError, match="no column Metric Unit or Metric Value"):
        observe.load(path)


# Reports ------------------------------------------------------------------------------------------------------------


def test_a_report_goes_through_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = tmp_path / "run.ncu-rep"
    report.write_bytes(b"NVR\x00binary")
    tool = tmp_path / "bin" / "ncu"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\n[ "$1 $2" = "--import {report}" ] && cat "{NCU / "h200_ranges.csv"}"\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tool.parent}:/bin:/usr/bin")
    assert observe.load(report) == observe.load(NCU / "h200_ranges.csv")
    renamed = tmp_path / "renamed"
    renamed.write_bytes(report.read_bytes())
    tool.write_text("#!/bin/sh\necho cannot open >&2\nexit 3\n")
    with pytest.raises(InputError, match="cannot open"):
        observe.load(renamed)  # recognised by its first bytes


def test_a_report_without_ncu_says_how_to_export_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu, "INSTALLED", ((str(tmp_path), "*/ncu"),))
    path = tmp_path / "run.ncu-rep"
    path.write_bytes(b"NVR\x00")
    with pytest.raises(InputError, match=r"ncu --import REPORT\.ncu-rep --csv --page raw"):
        observe.load(path)
    for version in ("2024.1", "2025.3"):
        tool = tmp_path / version / "ncu"
        tool.parent.mkdir()
        tool.write_text(f"#!/bin/sh\necho {version} cannot open\nexit 3\n")
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(InputError, match=r"2025\.3 cannot open"):  # the newest that is installed
        observe.load(path)


# Names --------------------------------------------------------------------------------------------------------------


def test_kernels_renamed_without_range_columns(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    header, units = ["ID", "Kernel Name", "gpu__time_duration.sum"], ["", "", "ns"]
    path.write_text(
        table(header, units, ["0", "step/gemm/void f<a/b>(int)", "5"], ["1", "void g<(int)4>(T1, a::b)", "5"])
    )
    first, second = observe.load(path)
    assert (first.path, first.name, first.kernel) == (("step", "gemm"), "gemm", "void f<a/b>(int)")
    assert (second.path, second.name, second.kernel) == ((), "g", "void g<(int)4>(T1, a::b)")


# The table ----------------------------------------------------------------------------------------------------------


def test_the_table_is_whole() -> None:
    names = [metric.name for metric in ncu_metrics.METRICS]
    assert len(names) == len(set(names))
    for metric in ncu_metrics.METRICS:
        assert metric.kind in ("flops", "bytes", "counter", "condition")
        assert metric.use in ("roofline", "diagnosis")
        assert metric.unit
        assert metric.meaning
        assert metric.ways
        for way in metric.ways:
            assert way.since < way.before
            assert 1 <= len(ncu_metrics.terms(way.formula)) <= 2
    assert set(ncu_metrics.LABELS.values()) <= formulas.WANTED


@pytest.mark.parametrize("capability", [7.0, 7.5, 8.0, 8.6, 8.9, 9.0, 10.0, 12.0])
def test_the_metrics_asked_for_serve_the_roofline_of_each_chip(capability: float) -> None:
    small, large = (ncu_metrics.metrics_for(use, capability) for use in ("roofline", "diagnosis"))
    assert set(small) < set(large)
    assert len(large) == len(set(large))
    have = tuple(small)
    plan = formulas.plan_for(have, str(capability))
    taken = {take.metric.name for take in plan.computed} | {name for pairs in plan.plain.values() for name, _ in pairs}
    assert plan.time is not None
    assert {"vector.fp32", "vector.fp64", "hbm", "l2", "l1", "sm_clock"} <= taken
    assert ("tensor.bf16" in taken) == (capability >= 8)
    assert ("tensor.fp8" in taken) == (8.9 <= capability < 12)
    assert not any(name.endswith("_sparsity_off.sum") for name in small)  # parents do
    assert any("hgmma" in name for name in small) == (capability == 9.0)  # and the dense peak


@given(st.dictionaries(st.sampled_from(sorted(formulas.WANTED)), st.floats(0, 1e15), max_size=40))
def test_any_set_of_metrics_gives_numbers_or_nothing(values: dict[str, float]) -> None:
    kernel = ncu_kernel.Kernel(
        {"Kernel Name": "k"}, tuple(values), (1.0,) * len(values), [repr(value) for value in values.values()]
    )
    found = ncu_kernel.observation(kernel, ".")
    if found is None:
        return
    assert all(value >= 0 for part in (found.flops, found.bytes, found.counters) for value in part.values())
    assert {f"flops.{name}" for name in found.flops} <= set(found.defined)
    assert {f"bytes.{name}" for name in found.bytes} <= set(found.defined)


# Names of the source material, moves, both sides of L2 ----------------------------------------------------------------


def one_kernel(tmp_path: Path, metrics: dict[str, tuple[str, str]]) -> Observation:
    """A raw page of one kernel with these metrics: name -> unit, value."""
    known = {"ID": ("", "0"), "Kernel Name": ("", "k"), "CC": ("", "9.0"), "gpu__time_duration.sum": ("us", "100")}
    columns = known | metrics
    rows = [list(columns), [unit for unit, _ in columns.values()], [value for _, value in columns.values()]]
    file = tmp_path / "kernel.csv"
    file.write_text("".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows), encoding="utf-8")
    (item,) = observe.load(file)
    return item


def test_metrics_of_the_source_material_are_known(tmp_path: Path) -> None:
    """S2-28, as corrected: rates become amounts, FP8 is not taken from the integer pipe (E-74)."""
    item = one_kernel(
        tmp_path,
        {
            "dram__bytes.sum.per_second": ("Tbyte/s", "2"),
            "lts__t_bytes.sum.per_second": ("Tbyte/s", "5"),
            "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.per_second": ("1/ns", "10"),
            "launch__registers_per_thread": ("register/thread", "64"),
            "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active": ("%", "94"),
            "sm__pipe_tensor_op_imma_cycles_active.avg.pct_of_peak_sustained_active": ("%", "0"),
        },
    )
    assert item.bytes == {"hbm": pytest.approx(2e8), "l2": pytest.approx(5e8), "shared": pytest.approx(128 * 1e6)}
    assert item.counters["registers"] == 64
    assert item.counters["tensor_busy"] == pytest.approx(0.94)
    assert not any(engine.startswith("tensor") for engine in item.flops)  # activity is no count of FLOPs


HALF = "smsp__sass_thread_inst_executed_op_h{}_pred_on.sum"


@pytest.mark.parametrize(
    ("add", "fma", "instructions", "flops"),
    [
        (0, 1e6, 2e7, 0.0),  # a twentieth of the instructions, no additions: constants
        (0, 1e6, 5e6, 4e6),  # a fifth: arithmetic
        (1e6, 1e6, 2e7, 6e6),  # additions: arithmetic
    ],
)
def test_compiler_moves_are_no_fp16_arithmetic(
    tmp_path: Path, add: float, fma: float, instructions: float, flops: float
) -> None:
    counts = {HALF.format("add"): add, HALF.format("mul"): 0, HALF.format("fma"): fma}
    counts["smsp__thread_inst_executed.sum"] = instructions
    item = one_kernel(tmp_path, {name: ("inst", f"{value:.0f}") for name, value in counts.items()})
    assert item.flops["vector.fp16"] == flops
    assert ("compiler moves" in item.defined["flops.vector.fp16"]) == (flops == 0)


def test_moves_of_the_planted_kernels_are_not_counted() -> None:
    """The recorded kernels compute in fp32, bf16 or not at all; each has a few HFMA2 per thread."""
    record = Path(__file__).parents[2] / "examples" / "faults" / "record" / "kernels.csv"
    items = observe.load(record)
    assert {item.flops["vector.fp16"] for item in items} == {0.0}
    # what the SMs exchange with L2 is at least what L2 exchanges with memory, but for what stays in L2
    for item in items:
        assert item.bytes["l2"] > 0.9 * item.bytes["hbm"] or item.bytes["hbm"] < 1e6, item.name
