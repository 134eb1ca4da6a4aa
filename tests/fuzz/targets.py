"""Every parser as a function of bytes: it returns, or raises RidgelineError; anything else is a finding.

A target writes the bytes where the parser reads them and checks what comes out. `TARGETS` lists them by name.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from functools import cache, partial
from itertools import chain
from pathlib import Path

from fuzz import checks
from fuzz.command import command, command_with_file
from fuzz.inputs import as_file, entries_of, json_or_nothing, text_of
from fuzz.ledgers import ledger_file, ledger_records
from ridgeline.core import dtypes, units
from ridgeline.core.documents import to_document
from ridgeline.core.errors import RidgelineError
from ridgeline.core.machine import Machine
from ridgeline.core.observation import Observation, from_document
from ridgeline.core.tabular import parse_json
from ridgeline.gaps import gate, settle
from ridgeline.gaps.steps.report import program_report
from ridgeline.machines import files as machine_files
from ridgeline.machines import schema, write
from ridgeline.machines.load import load as load_machine
from ridgeline.prediction import score, table
from ridgeline.prediction.predict import predict
from ridgeline.profilers import load as profiles
from ridgeline.programs import cases, ops
from ridgeline.programs.models import parameters, phase
from ridgeline.programs.models.hf import read_config
from ridgeline.programs.models.program import step_ops
from ridgeline.render.tables.gaps import report_answer, report_tables
from ridgeline.render.tables.steps import move_lines, step_answer, step_tables

H200_MLP = Path(__file__).parents[1] / "fixtures" / "jax" / "h200_mlp.trace.json.gz"
Target = Callable[[bytes], object]
MAX_SWEEP = 20_000  # values of a sweep that are predicted here


@cache
def catalog_machine(name: str = "h200-sxm") -> Machine:
    return load_machine(name)


# -- profilers -----------------------------------------------------------------------------------------------------


def profile(data: bytes, suffix: str, form: str | None) -> list[Observation]:
    items = profiles.load(as_file(data, f"profile{suffix}"), form)
    checks.observations(items)
    checks.writable(profiles.document(items), "the import")
    return items


def trace(data: bytes, suffix: str, form: str) -> None:
    """A trace as observations and as a timeline; one may be refused where the other is read."""
    refused: list[RidgelineError] = []
    for read in (lambda: profile(data, suffix, form), lambda: timeline(data, suffix, form)):
        try:
            read()
        except RidgelineError as error:
            refused.append(error)
    if refused:
        raise refused[0]


def timeline(data: bytes, suffix: str, form: str) -> None:
    """The timeline, and the report of the program that it records, in every form it is shown in."""
    line = profiles.timeline(as_file(data, f"profile{suffix}"), form)
    checks.timeline(line)
    report = program_report(line, catalog_machine())
    checks.hold(0 <= report.view.explained_share <= 1 + 1e-9, f"{report.view.explained_share} of the time is explained")
    checks.writable(to_document(report), "the program report")
    for text in (*step_answer(report), *move_lines(report.moves), *(each.text() for each in step_tables(report))):
        checks.hold(isinstance(text, str), "a line is no text")


def compiled_programs(data: bytes) -> None:
    """The binary profile of JAX next to a trace that replays its programs."""
    trace_file = as_file(H200_MLP.read_bytes(), H200_MLP.name)
    as_file(data, H200_MLP.name.replace("trace.json.gz", "xplane.pb"))
    checks.timeline(profiles.timeline(trace_file, "jax_profiler"))


def plain_csv(data: bytes) -> None:
    """Every line below the header is one observation, but for the header itself where it comes again."""
    items = profile(data, ".csv", "plain")
    lines = [line for line in re.split(r"\r\n|\r|\n", text_of(data)) if line.strip(",;\t \ufeff")]
    while lines and lines[0].lstrip("\ufeff \t").startswith("#"):
        lines.pop(0)
    if lines:
        sign = max(",;\t", key=lines[0].count)
        head, *rows = (
            [cell.strip().lower() for cell in next(csv.reader([line.lstrip("\ufeff")], delimiter=sign))]
            for line in lines
        )
        count = sum(row != head for row in rows)
        checks.hold(len(items) == count, f"rows were dropped: {count} came in and {len(items)} went out")


def observation(data: bytes) -> None:
    """One observation document, and the same one after it was written."""
    document = json_or_nothing(data)
    entries = document if isinstance(document, list) else [document]
    for entry in entries[:20]:
        item = from_document(entry)
        checks.observations([item])
        again = from_document(parse_json(checks.writable(to_document(item), "the observation")))
        checks.hold(again.samples == item.samples and again.name == item.name, "the observation changed when written")


# -- cases ---------------------------------------------------------------------------------------------------------


def read_cases(data: bytes, suffix: str) -> None:
    rows = cases.read(as_file(data, f"cases{suffix}"))
    if suffix == ".csv" and (text := text_of(data)):
        source = io.StringIO(text.removeprefix("\ufeff"), newline="")
        first = next((line for line in source if line.strip() and not line.lstrip().startswith("#")), "")
        head, *lines = [
            line for line in csv.reader(chain([first], source), delimiter=max(",;\t", key=first.count)) if line
        ] or [[]]
        count = sum(line != head for line in lines)
        checks.hold(len(rows) == count, f"rows were dropped: {count} came in and {len(rows)} were read")
    if suffix == ".json" and (entries := entries_of(data)):
        checks.hold(len(rows) == len(entries), f"rows were dropped: {len(entries)} came in and {len(rows)} were read")
    results, errors = table.run(rows, table.Defaults(catalog_machine(), load_machine, {}, {}))
    checks.hold(len(results) == len(rows), f"rows were dropped: {len(rows)} came in and {len(results)} went out")
    checks.predicted(results, errors)


def cases_program(data: bytes) -> None:
    """The same rows as `seal` and `reconcile` read them."""
    rows = cases.read(as_file(data, "cases.json"))
    prediction, _ = settle.predicted(rows, catalog_machine())
    sealed = settle.rows_of(prediction)
    checks.hold(len(sealed) == len(rows), f"rows were dropped: {len(rows)} came in and {len(sealed)} went out")
    for row in sealed:
        checks.printable(row["name"], "a name")
        checks.finite(row["time_us"], "a time", 0.0)
    checks.writable(sealed, "the rows")


def evaluation(data: bytes, suffix: str) -> None:
    rows = cases.read(as_file(data, f"eval{suffix}"))
    scores = score.evaluate(rows, table.Defaults(catalog_machine(), load_machine, {}, {}))
    checks.hold(len(scores.rows) + scores.failed == len(rows), "a row was dropped")
    for family in scores.families:
        checks.times(family.measured.tolist(), family.family)
        for name, predicted_times in family.predicted.items():
            checks.times(predicted_times.tolist(), name)
    checks.writable(score.document(scores), "the evaluation")
    for text in scores.row_errors:
        checks.shown(text, "an error")


def model_config(data: bytes) -> None:
    """A configuration of a model, what is counted from it, and the ops of a step."""
    model = read_config(as_file(data, "config.json"))
    checks.printable(model.name, "a name")
    for note in model.notes:
        checks.printable(note, "a note")
    counted = parameters.parameters(model)
    checks.hold(0 < counted.active <= counted.total, f"{counted.active} of {counted.total} parameters are active")
    checks.finite(parameters.weight_bytes(model, model.weights), "the bytes of weights", 0.0)
    checks.finite(float(parameters.kv_bytes(model, 100.0)), "the bytes of the cache", 0.0)
    for op in step_ops(model, phase.decode(2.0, 100.0) if model.causal else phase.prefill(2.0, 100.0)):
        checks.finite(float(op.work.bytes), "the bytes of an op", 0.0)
    checks.writable(to_document(model), "the architecture")


# -- machines, gate, ledger ----------------------------------------------------------------------------------------


def machine(data: bytes) -> None:
    path = as_file(data, "machine.toml")
    value = machine_files.load_file(path)
    checks.machine(value)
    text = write.text(value)
    again = schema.read(text, "again")
    checks.hold(write.text(again) == text, "the machine changed when it was written and read")
    for call in (ops.find("gemm")(m=64, n=64, k=64), ops.find("copy")(n=1e6)):
        checks.finite(float(predict(call, value).time), "a time", 0.0)


def gate_file(data: bytes, suffix: str) -> None:
    timings = gate.load(as_file(data, f"timings{suffix}"))
    entries = [entry for entry in entries_of(data) if isinstance(entry, dict)] if suffix == ".json" else []
    if entries and all(isinstance(entry.get("samples"), list) and entry["samples"] for entry in entries):
        given = sum(len(entry["samples"]) for entry in entries)
        read = sum(len(timed.samples) for timed in timings.values())
        checks.hold(given == read, f"samples were dropped: {given} came in and {read} were read")
    for name, timed in timings.items():
        checks.printable(name, "a name")
        checks.times(timed.samples, name)
        checks.writable(dict(timed.conditions), "conditions")
    verdict = gate.compare(timings, timings)
    checks.hold(len(verdict.items) == len(timings), "a name was dropped")
    checks.hold(verdict.passed, "timings are slower than themselves")
    checks.printable(verdict.sentence, "the sentence")
    checks.writable(to_document(verdict), "the verdict")


def reconciled(data: bytes) -> None:
    """`{"cases": [...], "profile": [...]}`: predictions of cases against any timings."""
    document = json_or_nothing(data)
    if not isinstance(document, dict):
        return
    parts = {name: json.dumps(document.get(name)).encode() for name in ("cases", "profile")}
    rows = cases.read(as_file(parts["cases"], "cases.json"))
    items = profiles.load(as_file(parts["profile"], "profile.json"), "plain")
    report = settle.reconcile(rows, catalog_machine(), items).report
    for item in report.items:
        checks.printable(item.name, "a name")
        checks.times([item.gap.measured], item.name)
    checks.writable(to_document(report), "the report")
    for line in report_answer(report):
        checks.shown(line, "the answer")
    for part in report_tables(report):
        for row in part.rows:
            for cell in row:
                checks.shown(str(cell), "a cell")


# -- words that are typed ------------------------------------------------------------------------------------------


def words(data: bytes) -> None:
    """Lines of `kind text`: sizes, sweeps, quantities, formats, names of ops and machines."""
    kind, _, text = data.decode("utf-8", "surrogateescape").partition(" ")
    if kind == "size":
        checks.finite(units.number(text), "a size")
    elif kind == "sweep":
        values = units.axis(text)
        for value in [values] if isinstance(values, float | int) else values[:MAX_SWEEP].tolist():
            checks.finite(value, "a value of a sweep")
    elif kind == "dtype":
        checks.finite(dtypes.dtype(text).stored_bits, "the bits")
        checks.printable(dtypes.dtype(text).name, "the name of a format")
    elif kind == "op":
        ops.find(text)
    elif kind == "machine":
        load_machine(text.replace("/", ""))
    elif kind == "call":
        call(text)
    elif kind in units.EXAMPLES:
        checks.finite(units.parse(text, kind), "a quantity")


def call(text: str) -> None:
    """An op and its sizes as on the command line: `gemm m=1..64 n=8 k=8 dtype=fp8`."""
    from ridgeline.app.cli.options import bind

    name, *sizes = text.split() or [""]
    op = ops.find(name)
    values = bind(op, sizes, {})
    if any(getattr(value, "size", 1) > MAX_SWEEP for value in values.values()):
        return
    prediction = predict(op(**values), catalog_machine())
    rows = list(prediction.rows())
    checks.predicted(rows, {})


def _targets() -> dict[str, Target]:
    forms = {
        "ncu": ("ncu", ".csv"),
        "perf": ("perf", ".csv"), "likwid": ("likwid", ".csv"), "rocprof": ("rocprof", ".csv"),
        "advisor": ("advisor", ".csv"), "plain-json": ("plain", ".json"),
    }  # fmt: skip
    return {
        **{name: partial(profile, suffix=suffix, form=form) for name, (form, suffix) in forms.items()},
        "torch": partial(trace, suffix=".json", form="torch_profiler"),
        "jax": partial(trace, suffix=".json", form="jax_profiler"),
        "xplane": compiled_programs,
        "any-profile": partial(profile, suffix="", form=None),
        "plain-csv": plain_csv,
        "observation": observation,
        **{f"cases-{kind}": partial(read_cases, suffix=f".{kind}") for kind in ("csv", "json", "jsonl", "parquet")},
        "cases-program": cases_program,
        **{f"eval-{kind}": partial(evaluation, suffix=f".{kind}") for kind in ("csv", "json")},
        **{f"gate-{kind}": partial(gate_file, suffix=f".{kind}") for kind in ("json", "csv")},
        "machine": machine,
        "model-config": model_config,
        "reconcile": reconciled,
        "ledger-file": ledger_file,
        "ledger-records": ledger_records,
        "words": words,
        "command": command,
        "command-file": command_with_file,
    }


TARGETS = _targets()
