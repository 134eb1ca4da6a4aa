"""The tables as values: columns, rows and notes, before anything is printed."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeline as rl
from ridgeline.core.documents import to_document
from ridgeline.core.errors import InputError, UnknownName
from ridgeline.core.machine import two_number
from ridgeline.prediction.answer import answer
from ridgeline.prediction.compare import comparison
from ridgeline.prediction.precisions import precision_sweep
from ridgeline.prediction.turning import critical_batch
from ridgeline.programs import ops
from ridgeline.render.table import Column, Table, columns, facts_table, percent
from ridgeline.render.tables.catalog import machine_tables, machines_table
from ridgeline.render.tables.named import TABLES, glossary
from ridgeline.render.tables.precisions import precisions_table
from ridgeline.render.tables.prediction import levels_table, prediction_tables, rows_table
from ridgeline.render.tables.studies import comparison_table, critical_batch_table

A100, H100 = rl.machine("a100-sxm-80gb"), rl.machine("h100-sxm")
MACHINES = [A100, rl.machine("epyc-9654"), rl.machine("tpu-v5e"), two_number(1e13, 1e12, 2e-6)]
GEMM = {"m": 4096.0, "n": 4096.0, "k": 4096.0}


def facts(table: Table) -> dict[str, str]:
    return {row["fact"]: row["value"] for row in table.rows}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_every_named_table_has_rows_for_any_machine_or_says_what_it_left_out(name: str, machine: rl.Machine) -> None:
    table = TABLES[name](machine)
    assert table.rows or any("left out" in note for note in table.notes)
    document = to_document(table)
    assert list(document) == ["title", "rows", "notes"]
    keys = [column.key for column in table.columns]
    assert all(list(row) == keys for row in document["rows"])
    assert len(table.csv().splitlines()) >= len(table.rows) + 1


def test_an_option_a_table_does_not_have_is_refused() -> None:
    with pytest.raises(InputError, match="the moves table has no dtype to choose"):
        TABLES["moves"](A100, dtype="fp16")
    assert TABLES["moves"](A100, dtype=None).rows


def test_columns_may_be_given_by_their_key_alone() -> None:
    assert columns("op", Column("time", unit="s")) == (Column("op"), Column("time", unit="s"))
    assert percent("share").cell(0.1234) == "12.3 %"
    assert percent("share").cell(9.3e-9) == "<0.1 %"
    assert facts_table("t", {"a": "1"}, ("n",)) == Table(
        "t", columns("fact", "value"), [{"fact": "a", "value": "1"}], ("n",), headed=False
    )


def test_a_card_ends_in_what_to_try_and_places_a_measured_time() -> None:
    study = answer(ops.gemm, GEMM, H100, measured=1e-3)
    (card,) = prediction_tables(study)
    shown = facts(card)
    assert list(shown)[-1] == "next"
    assert len(shown) <= 10
    assert shown["measured"].startswith("137 TFLOP/s, 101 GB/s: 14 % of the tensor.bf16 peak")
    assert study.lines[0].startswith("measured 1 ms: 14 % of roofline, ")
    assert shown["crossover"].startswith("compute-bound at m >= ")
    row = answer(ops.gemm, GEMM, H100, measured=1e-3).rows()[0]
    assert row["achieved"]["rate"] == pytest.approx(2 * 4096**3 / 1e-3)
    assert row["achieved"]["roof_share"] == pytest.approx(row["floor_us"] / 1e3)
    with pytest.raises(InputError, match="positive"):
        answer(ops.gemm, GEMM, H100, measured=-1.0).rows()


def test_a_sweep_shows_its_axis_and_counts_what_it_leaves_out() -> None:
    study = answer(ops.gemm, {**GEMM, "m": np.arange(1.0, 101.0)}, H100)
    table = rows_table(study, 10)
    assert [column.key for column in table.columns][:2] == ["m", "time_us"]
    assert [row["m"] for row in table.rows] == list(range(1, 11))
    assert table.notes[-1].startswith("90 more rows")


def test_the_explanation_adds_up() -> None:
    study = answer(ops.gemm, GEMM, H100)
    _, flops, moved, ceilings, items = prediction_tables(study, explain=True)
    assert sum(row["amount"] for row in flops.rows[:-1]) == flops.rows[-1]["amount"] == 2 * 4096**3
    assert sum(row["amount"] for row in moved.rows[:-1]) == moved.rows[-1]["amount"] == 3 * 4096**2 * 2
    assert [row["binds"] for row in ceilings.rows].count("floor") == 1
    assert sum(row["time"] for row in items.rows[:-1]) == pytest.approx(items.rows[-1]["time"], rel=1e-3)


def test_levels_beyond_resident_data_see_no_bytes() -> None:
    """Data in L2: nothing crosses the memory outside it, so there is no intensity, and asking does not fail."""
    study = answer(ops.gemm, {"m": 512.0, "n": 512.0, "k": 512.0}, A100, resident="l2")
    rows = {row["level"]: row for row in levels_table(study).rows}
    assert rows["hbm"]["bytes"] == 0
    assert rows["hbm"]["intensity"] is None
    assert rows["l1"]["bytes"] == rows["l2"]["bytes"] == study.prediction.bytes


def test_machines_side_by_side_with_an_op_on_each() -> None:
    study = comparison([A100, H100], "bf16", None, ops.gemm, GEMM)
    first, second = comparison_table(study).rows
    assert first["gains"] is None
    assert second["gains"] == "prefill"
    assert first["speedup"] == 1
    assert second["speedup"] == pytest.approx(first["time_us"] / second["time_us"])
    assert "speedup" not in [column.key for column in comparison_table(comparison([A100, H100])).columns]
    with pytest.raises(InputError, match="not a sweep"):
        comparison([A100], "bf16", None, ops.gemm, {**GEMM, "m": np.arange(1.0, 3.0)})


def test_precisions_have_a_row_for_each_format_and_case() -> None:
    study = precision_sweep(ops.gemm, {**GEMM, "m": np.array([1.0, 64.0])}, A100, ["bf16", "int8"])
    table = precisions_table(study)
    assert [(row["m"], row["dtype"]) for row in table.rows] == [(1, "bf16"), (64, "bf16"), (1, "int8"), (64, "int8")]
    assert "TOP/s" in table.cells()[-1][4]


def test_critical_batch_never_is_null_in_the_document() -> None:
    never = critical_batch(256, 256, A100, dtype="fp16")
    assert (to_document(never)["never"], to_document(never)["critical_batch"]) == (True, None)
    assert facts(critical_batch_table(never))["critical batch"].startswith("never")
    assert to_document(critical_batch(4096, 4096, ridge=152.0, dtype="fp16"))["critical_batch"] == 165
    with pytest.raises(InputError, match="ridge must be positive"):
        critical_batch(4096, 4096, ridge=-1.0)


def test_the_catalog_has_a_line_and_a_card_for_every_machine() -> None:
    table, rows = machines_table()
    assert len(table.rows) == len(rows) == int(table.title.split()[0])
    head, peaks, levels, *_, sources = machine_tables(H100)
    assert facts(head)["vendor"] == "NVIDIA"
    assert len(peaks.rows) == len(H100.peaks)
    assert [row["name"] for row in levels.rows] == [level.name for level in H100.levels]
    assert {row["source"] for row in peaks.rows} & {row["name"] for row in sources.rows}


def test_the_glossary_knows_synonyms_and_refuses_unknown_words() -> None:
    assert [row["term"] for row in glossary("AI").rows] == ["arithmetic intensity"]
    with pytest.raises(UnknownName):
        glossary("nosuchword")
