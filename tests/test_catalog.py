"""Every machine file: loads, names its sources, stated agrees with derived, and none of the known traps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ridgeline as rl
from ridgeline.core.errors import MissingFigure, SchemaError, UnknownName
from ridgeline.core.figure import KINDS, Figure
from ridgeline.core.machine import Machine
from ridgeline.machines import files, power, reader, schema, transfer
from ridgeline.machines.load import USUAL, load

CATALOG = sorted(path.stem for path in files.CATALOG.glob("*.toml"))
TERA, GIGA = 1e12, 1e9

# The machines the catalog promises.
PROMISED = [
    "p100-pcie-16gb", "v100-sxm2-16gb", "v100-sxm2-32gb", "v100-pcie-32gb", "t4", "a100-sxm-40gb", "a100-pcie-40gb",
    "a100-sxm-80gb", "a100-pcie-80gb", "a10", "a30", "a40", "l4", "l40s", "rtx-3090", "rtx-4090", "rtx-5090",
    "rtx-6000-ada", "rtx-pro-6000", "h100-sxm", "h100-pcie", "h100-nvl", "gh200", "h200-sxm", "h20", "b200-sxm",
    "b300-sxm", "gb200", "gb300", "gh200-144gb", "rtx-pro-6000-max-q", "rtx-pro-6000-server", "intel-max-1550-stack", "mi100", "mi210", "mi250x", "mi250x-gcd", "mi300x", "mi325x", "mi355x", "tpu-v4",
    "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7", "gaudi2", "gaudi3", "trainium1", "trainium2", "intel-max-1550",
    "apple-m1", "apple-m1-max", "apple-m1-ultra", "apple-m2-max", "apple-m2-ultra", "apple-m3-max",
    "apple-m3-ultra", "apple-m4", "apple-m4-max", "xeon-8480plus", "xeon-6980p", "epyc-9654", "epyc-9755",
    "graviton3", "graviton4", "grace",
]  # fmt: skip


def told(figure: Figure) -> float:
    """What the vendor says, else what the counts give; what was measured here is another matter."""
    found = next((value for value in (figure.stated, figure.derived, figure.measured) if value is not None), None)
    assert found is not None
    return found


def peak(machine: str, name: str) -> float:
    return told(rl.machine(machine).peaks[name]) / TERA


def bandwidth(machine: str) -> float:
    return told(rl.machine(machine).main.bandwidth) / GIGA


def test_promised_machines_are_there() -> None:
    assert set(PROMISED) <= set(CATALOG)


@pytest.mark.parametrize("name", CATALOG)
def test_file_is_named_after_its_machine_and_every_figure_has_a_source(name: str) -> None:
    machine = rl.machine(name)
    assert machine.name == name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    figures = [
        *machine.peaks.values(),
        *(level.bandwidth for level in machine.levels),
        *(link.per_direction for link in machine.links),
    ]
    known = [figure for figure in figures if any(getattr(figure, kind) is not None for kind in KINDS)]
    assert known
    assert all(figure.source in machine.sources.values() for figure in known)
    assert machine.main.bandwidth.value() is not None, "the main memory needs a bandwidth"
    assert any(not key.startswith(("tensor-sparse", "special")) for key in machine.peaks), "a dense peak is needed"


@pytest.mark.parametrize("name", CATALOG)
def test_stated_and_derived_agree_or_say_why(name: str) -> None:
    machine = rl.machine(name)
    figures = {**machine.peaks, **{level.name: level.bandwidth for level in machine.levels}}
    for key, figure in figures.items():
        if figure.stated and figure.derived and not figure.differs:
            assert figure.derived == pytest.approx(figure.stated, rel=reader.AGREEMENT), f"{name} {key}"


def test_most_stated_figures_agree_with_derived_ones_and_the_page_says_what_is_absent() -> None:
    page = " ".join((Path(__file__).parents[1] / "docs" / "use" / "catalog.md").read_text(encoding="utf-8").split())
    every = {name: load(name) for name in CATALOG}
    figures = [
        figure
        for machine in every.values()
        for figure in (*machine.peaks.values(), *(level.bandwidth for level in machine.levels))
        if figure.stated and figure.derived
    ]
    agreeing = [figure for figure in figures if figure.derived == pytest.approx(figure.stated, rel=reader.AGREEMENT)]
    assert len(agreeing) / len(figures) == pytest.approx(0.97, abs=0.02)
    assert "97 % of these agree" in page
    levels = [(name, level) for name, machine in every.items() for level in machine.levels]
    have = {
        "latency of a memory level": [name for name, level in levels if level.latency.value()],
        "launch latency": [name for name, machine in every.items() if machine.launch.value()],
        "dispatch cost per launch": [n for n, m in every.items() if m.dispatch.value()],
        "energy per flop and byte, static power": [name for name, machine in every.items() if machine.energy],
    }
    for what, names in have.items():
        assert f"| {what} | all but {', '.join(sorted(set(names)))} |" in page


@pytest.mark.parametrize("name", CATALOG)
def test_figures_are_physically_plausible(name: str) -> None:
    """Slips by 2, 8 or 1000 show as impossible ridges, bandwidths that shrink towards the core, or sparse below dense."""
    machine = rl.machine(name)
    assert 10e9 < machine.bandwidth().value < 20e12
    for key, value in machine.ridges().items():
        assert 0.05 < value < 6000, f"{name} {key} has ridge {value}"
    rates = [level.bandwidth.value() for level in machine.levels if level.bandwidth.value() is not None]
    assert rates == sorted(rates, reverse=True), f"{name}: a level nearer the core is slower than one further out"
    sizes = [level.total for level in machine.levels if level.total is not None]
    assert machine.levels[-1].total is None or sizes[-1] == max(sizes)
    for key, figure in machine.peaks.items():
        if key.startswith("tensor-sparse."):
            dense = machine.peaks.get(key.replace("tensor-sparse", "tensor"))
            if dense is not None:
                assert 1.3 <= told(figure) / told(dense) <= 2.05, f"{name} {key}"


def test_driver_names_are_unique() -> None:
    owners: dict[str, list[str]] = {}
    for name in CATALOG:
        for alias in rl.machine(name).aliases:
            owners.setdefault(" ".join(alias.lower().split()), []).append(name)
    assert {alias: names for alias, names in owners.items() if len(names) > 1} == {}


# -- the traps ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "name", "tera"),
    [
        ("h100-sxm", "tensor.bf16", 989.4), ("h100-sxm", "tensor.fp8", 1978.9), ("h100-pcie", "tensor.bf16", 756), ("h100-pcie", "tensor.fp8", 1513),
        ("l4", "tensor.bf16", 121), ("l4", "tensor.fp8", 242), ("a100-sxm-80gb", "tensor.int8", 624), ("a100-sxm-80gb", "tensor.bf16", 312),
        ("rtx-5090", "tensor.bf16", 209.5), ("rtx-5090", "tensor.fp8", 419), ("rtx-5090", "tensor.nvfp4", 1676), ("rtx-3090", "tensor.bf16", 71),
        ("rtx-4090", "tensor.bf16", 165.2), ("rtx-4090", "tensor.fp8", 330.3), ("b200-sxm", "tensor.bf16", 2250), ("b200-sxm", "tensor.fp8", 4500),
        ("b200-sxm", "tensor.nvfp4", 9000), ("gb200", "tensor.bf16", 2500), ("gb200", "tensor.nvfp4", 10000), ("b300-sxm", "tensor.nvfp4", 13500),
        ("b300-sxm", "vector.fp64", 1.25), ("b200-sxm", "vector.fp64", 37), ("b200-sxm", "tensor.fp64", 37), ("h100-sxm", "tensor.fp64", 66.9),
        ("a100-sxm-80gb", "vector.fp64", 9.7), ("a100-sxm-80gb", "tensor.fp64", 19.5), ("mi300x", "vector.fp64", 81.7), ("mi300x", "tensor.fp64", 163.4),
        ("mi355x", "vector.fp64", 78.6), ("mi355x", "tensor.fp64", 78.6), ("mi250x", "tensor.bf16", 383), ("mi250x-gcd", "tensor.bf16", 191.5),
        ("mi100", "tensor.bf16", 92.3), ("mi100", "tensor.fp16", 184.6), ("tpu-v4", "tensor.bf16", 275), ("tpu-v4", "tensor.int8", 275), ("tpu-v5e", "tensor.int8", 393.5),
        ("gaudi3", "tensor.bf16", 1835), ("trainium2", "tensor.bf16", 667), ("h20", "tensor.bf16", 148), ("intel-max-1550", "tensor.bf16", 839),
    ],
)  # fmt: skip
def test_dense_peaks_public_tables_get_wrong(machine: str, name: str, tera: float) -> None:
    assert peak(machine, name) == pytest.approx(tera, rel=0.01)


@pytest.mark.parametrize(
    ("machine", "giga"),
    [
        ("a100-sxm-40gb", 1555), ("a100-pcie-40gb", 1555), ("a100-sxm-80gb", 2039), ("a100-pcie-80gb", 1935), ("h100-sxm", 3350), ("h100-pcie", 2000),
        ("h200-sxm", 4800), ("b200-sxm", 7700), ("l4", 300), ("t4", 320), ("rtx-5090", 1792), ("mi250x", 3277), ("mi250x-gcd", 1638), ("tpu-v5e", 819),
        ("tpu-v5p", 2765), ("apple-m4-max", 546), ("apple-m3-max", 400), ("xeon-6980p", 614.4), ("epyc-9755", 614.4), ("epyc-9654", 460.8),
    ],
)  # fmt: skip
def test_bandwidths_public_tables_get_wrong(machine: str, giga: float) -> None:
    assert bandwidth(machine) == pytest.approx(giga, rel=0.005)


@pytest.mark.parametrize(
    ("machine", "absent"),
    [
        ("a100-sxm-80gb", "fp8"), ("t4", "bf16"), ("v100-sxm2-32gb", "bf16"), ("h100-sxm", "int4"), ("b200-sxm", "int4"), ("mi210", "tf32"), ("mi250x", "tf32"), ("mi355x", "tf32"),
        ("p100-pcie-16gb", "bf16"), ("tpu-v7", "int8"), ("apple-m1", "fp64"), ("apple-m4-max", "fp64"), ("h100-sxm", "mxfp8"),
    ],
)  # fmt: skip
def test_formats_a_machine_lacks_are_named_with_those_it_has(machine: str, absent: str) -> None:
    one = rl.machine(machine)
    with pytest.raises(MissingFigure, match=f"does no {absent}") as caught:
        one.engine("matrix", absent)
    assert one.dtypes()[0] in str(caught.value)


def test_links_are_per_direction() -> None:
    speeds = {
        name: rl.machine(name).link("nvlink").per_direction.value() / GIGA
        for name in ("a100-sxm-80gb", "h100-sxm", "b200-sxm")
    }
    assert speeds == {"a100-sxm-80gb": 300, "h100-sxm": 450, "b200-sxm": 900}
    assert rl.machine("h100-sxm").link("pcie").per_direction.value() == pytest.approx(63e9, rel=0.01)


@pytest.mark.parametrize("name", CATALOG)
def test_links_say_what_they_join(name: str) -> None:
    """A link without it would take any number of ranks at its full rate."""
    machine = rl.machine(name)
    assert all(link.topology for link in machine.links)
    if machine.kind != "cpu" and not name.startswith("gh200"):  # how many share a switch is the server's choice
        assert all(link.devices for link in machine.links if link.topology != "network")


def test_machines_of_one_kind_of_node_join_as_many() -> None:
    for one, other in (("gb200", "gb300"), ("gh200", "gh200-144gb"), ("rtx-pro-6000", "rtx-pro-6000-server")):
        mine, theirs = rl.machine(one).links[0], rl.machine(other).links[0]
        assert (mine.topology, mine.links, mine.devices, mine.reduces) == (
            theirs.topology,
            theirs.links,
            theirs.devices,
            theirs.reduces,
        )


def test_counts_of_units() -> None:
    units = {
        name: rl.machine(name).units["sm"]
        for name in ("l4", "h100-sxm", "h100-pcie", "b200-sxm", "b300-sxm", "rtx-pro-6000", "h20")
    }
    assert units == {
        "l4": 58,
        "h100-sxm": 132,
        "h100-pcie": 114,
        "b200-sxm": 148,
        "b300-sxm": 148,
        "rtx-pro-6000": 188,
        "h20": 78,
    }


def test_device_memory_is_what_the_driver_reports() -> None:
    assert rl.machine("h200-sxm").main.capacity.value() == 143771 * 2**20
    assert rl.machine("l40s").main.capacity.value() == 46068 * 2**20
    assert rl.machine("a100-sxm-80gb").main.capacity.value() == 80 * 2**30


def test_consumer_dies_have_a_64th_of_fp32_in_fp64() -> None:
    for name in ("rtx-3090", "rtx-4090", "a10", "a40", "l4", "l40s"):
        one = rl.machine(name)
        assert one.peak("vector.fp32").value / one.peak("vector.fp64").value == pytest.approx(64, rel=0.03), name


def test_ecc_costs_bandwidth_only_where_it_is_inline() -> None:
    assert rl.machine("a100-sxm-80gb").ecc == rl.machine("h100-sxm").ecc == "sideband"
    assert rl.machine("a10").ecc == "inline"


def test_cpu_peak_is_cores_times_clock_times_lanes_times_pipes_times_two() -> None:
    """S0-12: Sapphire Rapids, 56 cores, 8 fp64 lanes, 2 FMA units."""
    xeon = rl.machine("xeon-8480plus")
    clock = next(value for name, value in xeon.clocks.items() if name == "allcore").value()
    assert xeon.peak("vector.fp64").value == pytest.approx(56 * clock * 8 * 2 * 2)
    assert xeon.peak("tensor.bf16").value == pytest.approx(56 * clock * 1024)


# -- names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("short", "name"),
    [("h200", "h200-sxm"), ("H200", "h200-sxm"), ("b200", "b200-sxm"), ("mi250x", "mi250x"), ("a10", "a10"), ("l4", "l4"), ("m4-max", "apple-m4-max"), ("9654", "epyc-9654"), ("NVIDIA H200", "h200-sxm"), ("v5e", "tpu-v5e"),
     ("h100", "h100-sxm"), ("H100", "h100-sxm"), ("a100", "a100-sxm-80gb"), ("a100-80gb", "a100-sxm-80gb"), ("v100", "v100-sxm2-32gb"), ("rtx4090", "rtx-4090"),
     ("RTX_4090", "rtx-4090"), ("4090", "rtx-4090"), ("mi300", "mi300x"), ("xeon", "xeon-8480plus"), ("h200sxm", "h200-sxm"), ("A100_SXM_40GB", "a100-sxm-40gb"), ("m1", "apple-m1")],
)  # fmt: skip
def test_short_forms(short: str, name: str) -> None:
    assert rl.machine(short).name == name


@pytest.mark.parametrize(
    ("short", "candidates"),
    [("tpu", ["tpu-v4", "tpu-v5e"]), ("apple", ["apple-m1", "apple-m4-max"])],
)
def test_ambiguous_short_forms_list_the_candidates(short: str, candidates: list[str]) -> None:
    with pytest.raises(UnknownName) as caught:
        rl.machine(short)
    assert all(name in str(caught.value) for name in candidates)


@pytest.mark.parametrize(
    ("asked", "near"), [("h100-smx", "h100-sxm"), ("a100-sxm-80g", "a100-sxm-80gb"), ("mi30x", "mi300x")]
)
def test_unknown_machines_offer_the_nearest(asked: str, near: str) -> None:
    with pytest.raises(UnknownName, match=near):
        rl.machine(asked)


def test_usual_variants_are_machines_of_the_catalog() -> None:
    assert set(USUAL.values()) <= set(CATALOG)
    assert not set(USUAL) & set(CATALOG)


@pytest.mark.parametrize("reported", ["NVIDIA A1000", "GB30", "NVIDIA H200 NVL", "NVIDIA L40", "A10G"])
def test_driver_names_match_whole_or_not_at_all(reported: str) -> None:
    assert files.by_driver_name(reported) == (None, "")


# -- the format -----------------------------------------------------------------------------------------------

GOOD = """
name = "toy"
title = "A toy"
vendor = "nobody"
kind = "gpu"
source = "doc"
[sources]
doc = "a document"
[clock]
main = "1 GHz"
[peak.vector]
fp32 = { stated = "1 TFLOP/s", derive = { units = 10, per_cycle = 100, clock = "main" } }
[[level]]
name = "hbm"
capacity = "1 GiB"
bandwidth = "100 GB/s"
"""


def test_own_machine_file(tmp_path: Path) -> None:
    path = tmp_path / "toy.toml"
    path.write_text(GOOD)
    machine = rl.machine(path)
    assert machine.peak("vector.fp32", "derived").value == 1e12
    assert rl.predict(rl.ops.axpy(1e6, dtype="fp32"), machine, launch=0).bound == "memory"


def test_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ridgeline" / "machines").mkdir(parents=True)
    (tmp_path / "ridgeline" / "machines" / "toy.toml").write_text(GOOD)
    monkeypatch.setattr(files, "user_folder", lambda: tmp_path / "ridgeline" / "machines")
    files.paths.cache_clear()
    try:
        assert rl.machine("toy").title == "A toy"
    finally:
        files.paths.cache_clear()


def test_five_mistakes_give_five_complaints() -> None:
    text = (
        GOOD.replace('kind = "gpu"', 'kind = "toaster"')
        .replace('"1 TFLOP/s"', '"1 TB/s"')
        .replace('capacity = "1 GiB"', 'capacity = "lots"')
        .replace('bandwidth = "100 GB/s"', 'bandwith = "100 GB/s"')
        + "colour = 'red'\n"
    )
    text = text.replace("colour", "[peak.tensor]\nbf16 = { stated = '2 TFLOP/s' }\n#")
    with pytest.raises(SchemaError) as caught:
        schema.read(text, "toy.toml")
    assert len(caught.value.complaints) == 5
    assert all(word in str(caught.value) for word in ("toaster", "TB/s", "lots", "bandwith", "dense or 2:4 sparse"))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (('"1 TFLOP/s"', '"2 TFLOP/s"'), "more than 2.5 % apart"),
        (('source = "doc"', ""), "names no source"),
        (('doc = "a document"', 'other = "a document"'), "not listed under"),
        (('clock = "main"', 'clock = "turbo"'), "not listed under [clock]"),
        (('"100 GB/s"', '"100"'), "has no unit"),
        (('"100 GB/s"', '"-100 GB/s"'), "it is from 1 to 1e+27 B/s"),
        (("[peak.vector]", "[peak.vectr]"), "unknown key 'vectr'"),
        (("fp32 =", "fp33 ="), "unknown number format"),
        (('name = "toy"', "name = 3"), "name: must be a text, found 3"),
        (("units = 10", "units = 1.5"), "whole number"),
        (("[[level]]", "[[levels]]"), "no [[level]]"),
        (("[sources]", "[sources"), "not TOML"),
    ],
)
def test_mistakes_are_named(change: tuple[str, str], complaint: str) -> None:
    with pytest.raises(SchemaError) as caught:
        schema.read(GOOD.replace(*change), "toy.toml")
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (('kind = "gpu"', 'kind = "gpu"\nnotes = 5'), "notes: must be a list, found 5"),
        (('kind = "gpu"', 'kind = "gpu"\naliases = [1]'), "aliases 1: must be a text, found 1"),
        (('kind = "gpu"', 'kind = "gpu"\nlink = 5'), "link: must be a list, found 5"),
        (('clock = "main"', "clock = [1]"), "clock: must be a text with its unit, found a list of 1"),
    ],
)
def test_values_of_another_type_are_mistakes_too(change: tuple[str, str], complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        schema.read(GOOD.replace(*change), "toy")


def test_unreadable_files_say_so(tmp_path: Path) -> None:
    with pytest.raises(rl.RidgelineError, match="cannot read"):
        rl.machine(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(rl.RidgelineError, match="UTF-8"):
        rl.machine(tmp_path / "binary.toml")


def test_gaudi3_has_the_printed_peak_and_the_one_of_its_clock() -> None:
    figure = rl.machine("gaudi3").peaks["tensor.bf16"]
    assert (figure.stated, figure.derived) == (1835 * TERA, pytest.approx(8 * 131072 * 1.6e9))
    assert "1.75 GHz" in figure.differs


def test_one_stack_is_half_of_the_card() -> None:
    stack, card = rl.machine("intel-max-1550-stack"), rl.machine("intel-max-1550")
    for name, figure in card.peaks.items():
        assert told(stack.peaks[name]) == pytest.approx(told(figure) / 2), name
    for half, every in zip(stack.levels, card.levels, strict=True):
        assert (half.total, told(half.bandwidth)) == pytest.approx((every.total / 2, told(every.bandwidth) / 2))


@pytest.mark.parametrize("name", [name for name in CATALOG if load(name).kind == "gpu"])
def test_every_gpu_has_what_borrowed_coefficients_need(name: str) -> None:
    """Cores and their clock; and, but for Apple's, the size of the last-level cache."""
    machine = load(name)
    assert transfer.clock(machine)
    assert power.cores(machine)
    assert machine.vendor == "Apple" or machine.level("l2").total


def test_asking_for_a_kind_that_is_missing_says_which_there_are() -> None:
    machine: Machine = rl.machine("h100-sxm")
    with pytest.raises(MissingFigure, match=r"no measured figure for tensor\.bf16; it has stated and derived"):
        machine.peak("tensor.bf16", "measured")
    with pytest.raises(MissingFigure, match="no figure for l2"):
        rl.machine("b200-sxm").bandwidth("l2")


def test_h200_was_measured_and_says_how() -> None:
    """The file of what was measured stands beside the stated figures, with device, driver, versions, data and date."""
    machine = rl.machine("h200-sxm")
    assert machine.peaks["tensor.bf16"].stated == 989.4e12
    goals = {"tensor.bf16": 780, "tensor.fp8": 1380, "tensor.tf32": 360, "tensor.fp64": 58, "vector.fp32": 60}
    for name, goal in goals.items():
        figure = machine.peaks[name]
        assert goal * TERA <= figure.measured <= figure.stated, name
        assert "samples" in figure.measurement
    assert machine.main.mixes["read"].measured >= 4.3e12
    assert machine.main.mixes["triad"].measured >= 4.3e12
    assert machine.level("l2").bandwidth.measured > 1.5 * machine.main.bandwidth.measured
    assert {"device", "driver", "versions", "data", "date", "power_limit"} <= set(machine.conditions)
    assert machine.energy["byte.hbm"].unit == "J/B"


def test_boards_with_the_same_chip_have_the_same_units() -> None:
    """int8 was on the V100 SXM2 alone, and the doubled special-function rate of Blackwell Ultra on the GB300 alone."""
    for one, other, peak in (
        ("v100-sxm2-16gb", "v100-pcie-16gb", "vector.int8"),
        ("v100-sxm2-32gb", "v100-pcie-32gb", "vector.int8"),
        ("gb300", "b300-sxm", "special.fp32"),
    ):
        pair = [rl.machine(name) for name in (one, other)]
        rates = [machine.peak(peak).value / machine.peak("vector.fp32").value for machine in pair]
        assert rates[0] == pytest.approx(rates[1], rel=0.05), (one, other)
