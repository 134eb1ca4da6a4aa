"""One walk over the figures of a machine: putting measured ones there, merging and comparing two measurements."""

from __future__ import annotations

from dataclasses import replace

import pytest

import ridgeline as rl
from ridgeline.core.documents import to_document
from ridgeline.core.figure import Figure
from ridgeline.core.fitted import Fitted
from ridgeline.core.machine import Machine
from ridgeline.machines.files import everything
from ridgeline.machines.merge import changes, figures, merge, put_measured, with_measured


def measured(unit: str, value: float, spread: float = 0.01) -> Figure:
    return Figure(unit, measured=value, measurement="probe", spread=spread, source="probe")


PLACES = {
    ("peaks", "tensor.bf16"): measured("flop/s", 7e14),
    ("peaks", "tensor.new"): measured("flop/s", 1e12),
    ("levels", "hbm", "bandwidth"): measured("B/s", 3e12),
    ("levels", "hbm", "mixes", "copy"): measured("B/s", 3.1e12),
    ("levels", "hbm", "latency"): measured("s", 6e-7),
    ("links", "nvlink", "per_direction"): measured("B/s", 4e11),
    ("launch",): measured("s", 2e-6),
    ("dispatch",): measured("s", 5e-6),
    ("limits", "shared_per_block"): measured("B", 2e5),
    ("energy", "static"): measured("W", 100.0),
    ("efficiency", "gemm.tensor.bf16"): measured("", 0.8),
}


@pytest.fixture
def machine() -> Machine:
    return rl.machine("h100-sxm")


@pytest.mark.parametrize("name", ["h200-sxm", "xeon-8480plus", "mi300x", "apple-m4"])
def test_the_walk_meets_every_figure_and_rebuilds_the_machine(name: str) -> None:
    machine = rl.machine(name)
    assert put_measured(machine, figures(machine)) == machine


def test_every_measured_figure_lands_in_its_place_and_nothing_else_changes(machine: Machine) -> None:
    made = put_measured(machine, PLACES)
    before, after = figures(machine), figures(made)
    assert {place for place in after if after[place] != before.get(place)} == set(PLACES)
    for place, figure in PLACES.items():
        old = before.get(place, figure)
        assert (after[place].measured, after[place].stated, after[place].derived) == (
            figure.measured,
            old.stated,
            old.derived,
        )
        assert after[place].source == (old.source or "probe")


def test_the_bandwidth_of_a_level_is_that_of_its_reads(machine: Machine) -> None:
    """The best of all mixes may be that of writes, which feed no arithmetic."""
    start = ("levels", "hbm")
    mixes = {(*start, "mixes", mix): measured("B/s", rate) for mix, rate in (("read", 3.0e12), ("write", 3.2e12))}
    made = put_measured(machine, {(*start, "bandwidth"): measured("B/s", 3.2e12), **mixes})
    assert made.main.bandwidth.measured == made.main.mixes["read"].measured == 3.0e12
    assert made.main.bandwidth.stated == machine.main.bandwidth.stated
    again = put_measured(made, {(*start, "mixes", "write"): measured("B/s", 3.3e12)})
    assert again.main.bandwidth.measured == 3.0e12


def test_levels_and_links_the_machine_does_not_have_are_left_out(machine: Machine) -> None:
    odd = {
        ("levels", "l9", "bandwidth"): measured("B/s", 1.0),
        ("links", "wire", "per_direction"): measured("B/s", 1.0),
    }
    assert put_measured(machine, odd) == machine


def test_figures_that_were_not_measured_take_nothing_away(machine: Machine) -> None:
    assert put_measured(put_measured(machine, PLACES), figures(machine)) == put_measured(machine, PLACES)


def test_a_file_of_measurements_brings_its_conditions_and_sources(machine: Machine) -> None:
    other = replace(put_measured(machine, PLACES), conditions={"driver": "580"}, sources={"measured": "a run"})
    made = with_measured(machine, other)
    assert made.main.bandwidth.measured == 3e12
    assert made.conditions == {"driver": "580"}
    assert set(made.sources) == {*machine.sources, "measured"}


# -- two measurements --------------------------------------------------------------------------------------------------


def test_of_two_measurements_the_higher_rate_and_the_shorter_latency_stay(machine: Machine) -> None:
    first = put_measured(machine, PLACES)
    twice = {place: replace(figure, measured=2 * (figure.measured or 0)) for place, figure in PLACES.items()}
    second = put_measured(machine, twice)
    for made in (merge(first, second), merge(second, first)):
        assert made.peaks["tensor.bf16"].measured == 14e14
        assert (made.main.bandwidth.measured, made.main.mixes["copy"].measured) == (6e12, 6.2e12)
        assert (made.main.latency.measured, made.launch.measured, made.dispatch.measured) == (6e-7, 2e-6, 5e-6)
    assert merge(first, second).energy["static"].measured == 100.0  # neither of two powers is the better one
    assert merge(machine, second).energy["static"].measured == 200.0


def test_links_that_only_the_first_one_has_stay(machine: Machine) -> None:
    assert merge(machine, replace(machine, links=machine.links[1:])).links == machine.links


def test_coefficients_of_the_machine_go_before_borrowed_ones(machine: Machine) -> None:
    lent = Fitted({"a": 1.0}, 0.1, 0.2, 0.9, 1.1, 10, "others", borrowed=True)
    mine = replace(lent, coefficients={"a": 2.0}, borrowed=False)
    first, second = (replace(machine, fitted={"key": row}) for row in (lent, mine))
    assert merge(first, second).fitted == merge(second, first).fitted == {"key": mine}


def test_changes_name_what_both_measured_and_whether_they_differ(machine: Machine) -> None:
    first = put_measured(machine, PLACES)
    second = put_measured(machine, {**PLACES, ("levels", "hbm", "mixes", "copy"): measured("B/s", 6.2e12)})
    rows = changes(first, second)
    assert [row.name for row in rows] == [
        "tensor.bf16", "tensor.new", "hbm", "hbm, copy", "hbm, latency", "nvlink", "launch", "dispatch",
    ]  # fmt: skip
    assert [row.name for row in rows if row.differs] == ["hbm, copy"]
    assert [row.ratio for row in rows if row.differs] == [2.0]
    assert changes(machine, second) == []


@pytest.mark.parametrize("other", list(everything())[:3], ids=lambda other: other.name)
def test_a_measurement_merged_with_itself_is_itself(other: Machine) -> None:
    assert to_document(merge(other, other)) == to_document(other)


def measured_cpu(rate: float, share: float, cores: int = 2) -> Machine:
    """A CPU on which a library reached a share of the peak that was measured with it."""
    peak = Figure("flop/s", measured=rate, measurement="probe", spread=0.01)
    reached = Figure("", measured=share, source="library", measurement="library")
    return replace(
        rl.machine("xeon-8480plus"), units={"core": cores}, peaks={"vector.fp32": peak}, efficiency={"gemm.vector.fp32": reached}
    )  # fmt: skip


@pytest.mark.parametrize("turned", [False, True])
def test_merged_efficiency_keeps_the_better_rate_and_not_the_better_share(turned: bool) -> None:
    """37.1 of 41.7 and 36.5 of 79.3: together 37.1 of 79.3, whichever file comes first."""
    pair = [measured_cpu(41.7e9, 0.89), measured_cpu(79.3e9, 0.46)]
    made = merge(*(reversed(pair) if turned else pair))
    assert made.peaks["vector.fp32"].measured == 79.3e9
    assert made.efficiency["gemm.vector.fp32"].measured == pytest.approx(0.89 * 41.7 / 79.3)


def test_measurements_of_different_parts_of_a_machine_are_not_merged() -> None:
    with pytest.raises(rl.RidgelineError, match="measured on 1 and on 2 of the cores"):
        merge(measured_cpu(4e10, 0.9, cores=1), measured_cpu(8e10, 0.9, cores=2))
