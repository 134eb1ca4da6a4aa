"""Answers of the exercises in lessons 1 to 7: values counted by hand or by another function, and what is refused."""

import math

import pytest
from fastapi.testclient import TestClient

from ridgeline.app.web.answers.exercises import Layer, batch_on
from ridgeline.app.web.server import make_app
from ridgeline.core.machine import two_number

A100 = "a100-sxm-80gb"
ROOF = {"on": A100, "dtype": "fp16"}
LAYER = {"in_features": 4096, "out_features": 4096, "dtype": "fp16"}


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(make_app(), base_url="http://127.0.0.1", raise_server_exceptions=False)


@pytest.fixture(scope="module")
def ask(client):
    def asked(name, **body):
        reply = client.post(f"/api/exercise/{name}", json=body)
        assert reply.status_code == 200, reply.text
        return reply.json()

    return asked


@pytest.mark.parametrize(("steps", "bound", "busy"), [(1, "memory", [0.1, 1]), (10, "balanced", [1, 1]), (100, "compute", [1, 0.1])])  # fmt: skip
def test_the_factory_breaks_even_at_ten_steps(ask, steps, bound, busy):
    reply = ask("factory", steps=steps)
    assert (reply["ridge"], reply["bound"]) == (10, bound)
    assert [bar["share"] for bar in reply["bars"]] == pytest.approx(busy)


def test_the_bars_of_a_product_and_a_sum_swap(ask):
    product, total = ask("counts", on=A100, cases=["gemm m=1024 n=1024 k=1024 dtype=fp32", "add n=67108864 dtype=fp32"])["cases"]  # fmt: skip
    assert (product["intensity_text"], total["intensity_text"]) == ("170.7", "0.083")
    assert product["intensity"] == pytest.approx(2 * 1024**3 / (3 * 4 * 1024**2))
    lengths = [{bar["side"]: bar["share"] for bar in case["bars"]} for case in (product, total)]
    assert lengths[0]["compute"] == lengths[1]["memory"] == 1
    assert max(lengths[0]["memory"], lengths[1]["compute"]) < 0.1


def test_the_chart_grows_by_ramp_ceiling_and_ridge(ask):
    charts = [step["chart"] for step in ask("buildup", **ROOF)["steps"]]
    parts = [([line["role"] for line in chart["lines"]], len(chart["marks"])) for chart in charts]
    assert parts == [([], 0), (["bandwidth"], 0), (["bandwidth", "peak"], 0), (["bandwidth", "peak"], 1)]
    assert len({(*chart["x"]["range"], *chart["y"]["range"]) for chart in charts}) == 1
    assert charts[3]["marks"][0]["value"] == pytest.approx(312e3 / 2039)


def test_a_point_is_read_against_the_roof_above_it(ask):
    left = ask("readout", **ROOF, intensity=10, performance=10.195e12)
    assert (left["side"], left["share_of_roofline"]) == ("memory", pytest.approx(0.5))
    right = ask("readout", **ROOF, intensity=1000, performance=312e12)
    assert (right["side"], right["share_of_roofline"]) == ("compute", pytest.approx(1))
    assert "no kernel" in ask("readout", **ROOF, intensity=10, performance=1e14)["answer"][1]


@pytest.mark.parametrize(("compute", "bandwidth"), [(2, 1), (1, 2), (4, 4), (0.25, 4)])
def test_the_ridge_follows_the_roof_and_the_ramp_keeps_its_slope(ask, compute, bandwidth):
    base, changed = ask("roof", **ROOF), ask("roof", **ROOF, compute=compute, bandwidth=bandwidth)
    assert changed["ridge"] / base["ridge"] == pytest.approx(compute / bandwidth)
    (ramp,) = [line for line in changed["chart"]["lines"] if line["role"] == "bandwidth"]
    (x0, y0), (x1, y1) = ramp["points"]
    assert math.log(y1 / y0) / math.log(x1 / x0) == pytest.approx(1)
    assert y0 / x0 == pytest.approx(2039e9 * bandwidth)
    assert changed["chart"]["x"] == base["chart"]["x"]
    assert changed["chart"]["y"] == base["chart"]["y"]


def test_generations_by_dense_figures(ask):
    reply = ask("generations", machines=[A100, "h100-sxm", "b200-sxm"], dtype="fp16")
    _, h100, b200 = reply["cards"]
    assert h100["compute_growth"] == pytest.approx(989.4 / 312)
    assert h100["bandwidth_growth"] == pytest.approx(3.35 / 2.039)
    assert h100["gains"] == "gains more: prefill"
    assert b200["compute_growth"] < b200["bandwidth_growth"]
    assert b200["gains"] == "gains more: decode, slightly"
    assert ["moves right" in line for line in reply["answer"]] == [True, False]


def test_both_phases_come_from_one_study(ask):
    reply = ask("phases", **ROOF, hidden=4096, prompt=512)
    rows = {row[0]: row for row in reply["table"]["cells"]}
    assert rows["projection"][1:] == ["410", "compute", "1", "memory"]
    prefill, decode = reply["chart"]["charts"]
    assert (prefill["x"], prefill["y"]) == (decode["x"], decode["y"])
    names = [{point["name"] for point in chart["points"] if point["role"] in ("expected", "overhead")} for chart in (prefill, decode)]  # fmt: skip
    assert names[0] == names[1] == set(rows)
    at = [next(point["x"] for point in chart["points"] if point["name"] == "projection") for chart in (prefill, decode)]
    assert at == pytest.approx([409.6, 0.99951], rel=1e-4)


@pytest.mark.parametrize(
    ("peak", "bandwidth", "crossing"),
    [(312e12, 2e12, 169), (989e12, 3.35e12, 345), (312e12, 2.039e12, 166)],
)
def test_the_batch_that_crosses_the_ridge(peak, bandwidth, crossing):
    machine, layer = two_number(peak, bandwidth), Layer(4096, 4096, "fp16")
    below, above = batch_on(layer, machine, crossing - 1), batch_on(layer, machine, crossing)
    assert below["critical_batch"] == above["critical_batch"] == crossing
    assert (below["side"], above["side"]) == ("memory", "compute")
    assert below["intensity"] < peak / bandwidth <= above["intensity"]


def test_a_narrow_layer_never_crosses(ask):
    reply = ask("batch", on=A100, batch=512, in_features=256, out_features=256, dtype="fp16", machines=[A100])
    assert reply["never"]
    assert reply["critical_batch"] is None
    assert reply["side"] == "memory"
    assert reply["answer"][1].startswith("Never crosses the ridge")


def test_the_dot_keeps_its_place_on_every_machine(ask):
    names = [A100, "h100-sxm", "b200-sxm"]
    charts = [ask("batch", **LAYER, on=name, batch=200, machines=names)["chart"] for name in names]
    assert len({(*chart["x"]["range"], *chart["y"]["range"]) for chart in charts}) == 1
    assert len({next(point["x"] for point in chart["points"] if point["label"]) for chart in charts}) == 1
    assert len({chart["marks"][0]["value"] for chart in charts}) == 3


CASES = [{"title": "product", "case": "gemm m=1024 n=1024 k=1024 dtype=fp32"}, {"title": "ReLU", "case": "relu n=67108864 dtype=fp32"}]  # fmt: skip


@pytest.mark.parametrize(("chosen", "side"), [(0, "right"), (1, "left")])
def test_a_guess_is_judged_by_the_side_of_the_ridge(ask, chosen, side):
    question = ask("place", on=A100, cases=CASES, chosen=chosen)
    assert {point["role"] for point in question["chart"]["points"]} == {"ridge"}
    ridge = question["chart"]["marks"][0]["value"]
    for guess, at in (("left", ridge / 1.01), ("right", ridge * 1.01)):
        reply = ask("place", on=A100, cases=CASES, chosen=chosen, guess=at)
        assert (reply["right"], reply["side"]) == (guess == side, side)
        assert (reply["spot"]["x"], reply["spot"]["y"]) in {(point["x"], point["y"]) for point in reply["chart"]["points"]}  # fmt: skip
        assert (reply["chart"]["x"], reply["chart"]["y"]) == (question["chart"]["x"], question["chart"]["y"])


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("counts", {"on": A100, "cases": ["copy n=100"]}, 400),
        ("counts", {"on": A100, "cases": ["gemm m=1,2,4 n=4 k=4"]}, 400),
        ("counts", {"on": A100, "cases": [""]}, 400),
        ("place", {"on": A100, "cases": CASES, "chosen": 7}, 400),
        ("place", {"on": A100, "cases": CASES, "chosen": -1}, 400),
        ("buildup", {"on": "/etc/passwd", "dtype": "fp16"}, 400),
        ("batch", {**LAYER, "on": A100, "batch": 0}, 422),
        ("factory", {"steps": 0}, 422),
        ("roof", {**ROOF, "compute": 100}, 422),
        ("readout", {**ROOF, "intensity": 0, "performance": 1}, 422),
    ],
)
def test_what_is_refused_is_refused_with_a_reason(client, name, body, status):
    reply = client.post(f"/api/exercise/{name}", json=body)
    assert reply.status_code == status, reply.text
    assert reply.json()["error"]
