"""A machine file that is written reads back as the same machine."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

import ridgeline as rl
from ridgeline.core.documents import to_document
from ridgeline.core.figure import Figure
from ridgeline.core.intake import clean
from ridgeline.core.observation import Observation
from ridgeline.core.work import work
from ridgeline.machines import schema
from ridgeline.machines import write as save
from ridgeline.machines.calibrate import calibrate
from ridgeline.machines.files import everything


@pytest.mark.parametrize("name", [machine.name for machine in everything()])
def test_saved_machine_reads_back_the_same(name: str) -> None:
    machine = rl.machine(name)
    assert to_document(schema.read(save.text(machine), machine.file)) == to_document(machine)


def test_coefficients_of_the_catalog_are_named_and_not_written_again() -> None:
    """Those of an H200 are 59 MB of text, which every command on a measured H200 would read; only what differs is written."""
    machine = rl.machine("h200-sxm")
    key, row = next((key, row) for key, row in machine.calibrated.items() if not str(row.nearby))
    own = replace(machine, fitted={**machine.fitted, key: replace(row, source="timed on this machine")})
    for one, keys in ((machine, set()), (own, {key})):
        text = save.text(one)
        assert len(text) < 100_000
        assert {line for line in text.splitlines() if line.startswith("[fitted.")} == {
            line for key in keys for line in (f'[fitted."{key}"]', f'[fitted."{key}".coefficients]', f'[fitted."{key}".ranges]')
        }  # fmt: skip
        assert to_document(schema.read(text, one.file)) == to_document(one)


def test_a_machine_without_some_coefficients_of_the_catalog_lists_those_it_has() -> None:
    machine = rl.machine("a100-sxm-80gb")
    _first, *rest = machine.calibrated.items()
    fewer = replace(machine, fitted=dict(rest))
    assert "fitted_from" not in save.text(fewer)
    assert to_document(schema.read(save.text(fewer), fewer.file)) == to_document(fewer)


def test_saved_measurements_read_back_the_same() -> None:
    odd = {'quote " and \\ slash': "line\nbreak\r\n\t\x7f µ"}
    made = calibrate(
        rl.machine("h200-sxm"),
        [
            Observation("probe", "hbm", (1.0, 1.1), work(read={"x": (4e12, "int8", "")}), {"mix": "read"}),
            Observation("probe", "vector.fp32", (1.0,), work(vector={"fma": (6e13, "")}, dtype="fp32")),
        ],
        odd,
    )
    again = schema.read(save.text(made), made.file)
    assert to_document(again)["levels"] == to_document(made)["levels"]
    assert to_document(again)["peaks"] == to_document(made)["peaks"]
    cleaned = {clean(key): clean(text) for key, text in odd.items()}
    assert dict(again.conditions) == {**rl.machine("h200-sxm").conditions, **cleaned}


def test_sources_that_the_file_does_not_list_get_free_names() -> None:
    """Also in the second writing, when names of the first one are taken."""
    machine = rl.machine("h100-sxm")
    peaks = {**machine.peaks, "vector.fp32": replace(machine.peaks["vector.fp32"], source="a letter")}
    machine = replace(
        machine, peaks=peaks, sources={**machine.sources, "source1": "a book"}, launch=Figure("s", stated=1e-6)
    )
    for _ in range(2):
        again = schema.read(save.text(machine), machine.file)
        assert {name: peak.source for name, peak in again.peaks.items()} == {
            name: peak.source for name, peak in machine.peaks.items()
        }
        assert again.sources["source1"] == "a book"
        assert again.launch.source == save.NO_SOURCE
        machine = replace(
            again, peaks={**again.peaks, "vector.fp64": Figure("flop/s", stated=1.0, source="another letter")}
        )


def test_predicting_does_without_the_writer() -> None:
    code = "import sys, ridgeline as rl; rl.predict(rl.ops.gemm(1, 2, 3), rl.machine('h200')); print('tomli_w' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
