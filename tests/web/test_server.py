"""The server of the explorer: what it answers, what it refuses, and the headers of every answer."""

import pytest
from fastapi.testclient import TestClient

from ridgeline.app.web.server import make_app

GEMM = {"op": "gemm", "values": {"m": 64, "n": 4096, "k": 4096, "dtype": "bf16"}}


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(make_app(), base_url="http://127.0.0.1", raise_server_exceptions=False)


def test_the_answer_is_that_of_the_command_line(client):
    from ridgeline.machines.load import load
    from ridgeline.prediction.answer import answer
    from ridgeline.programs.ops import find

    reply = client.post("/api/explore", json={"machines": ["h200-sxm"], "cases": [GEMM]}).json()
    assert reply["answer"] == answer(find("gemm"), GEMM["values"], load("h200-sxm")).lines


def test_every_answer_carries_the_policy_that_allows_own_scripts_only(client):
    for address in ("/", "/theme.css", "/plotly.js", "/static/js/main.js", "/api/catalog", "/nowhere"):
        policy = client.get(address).headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "default-src 'none'" in policy


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/hosts.toml", "here/../x.toml", "no-such-gpu", "C:\\x.toml"])
def test_no_text_becomes_a_path(client, name):
    reply = client.post("/api/explore", json={"machines": [name]})
    assert reply.status_code == 400
    assert "unknown machine" in reply.json()["error"]


def test_files_outside_of_the_page_are_not_served(client):
    for address in ("/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py"):
        assert client.get(address).status_code == 404


def test_other_hosts_are_refused():
    with TestClient(make_app(), base_url="http://evil.example") as client:
        assert client.get("/api/catalog").status_code == 400


@pytest.mark.parametrize("streamed", [False, True])
def test_large_uploads_are_refused(streamed):
    client = TestClient(make_app(max_upload=1000), base_url="http://127.0.0.1")
    content = (b"x" * 500 for _ in range(10)) if streamed else b"x" * 5000
    reply = client.post("/api/explore", content=content, headers={"content-type": "application/json"})
    assert reply.status_code == 413
    assert "larger than" in reply.json()["error"]


def test_a_malformed_request_names_the_field(client):
    reply = client.post("/api/explore", json={"machines": "h100-sxm"})
    assert reply.status_code == 422
    assert reply.json()["error"] == "machines must be a list"


def test_a_card_prices_changes_as_whatif_does_and_takes_no_file(client):
    from ridgeline.machines.load import load
    from ridgeline.prediction import whatif
    from ridgeline.programs.ops import find

    asked = {**GEMM, "machine": "h100-sxm"}
    offers = {row["change"]: row["ratio"] for row in client.post("/api/explore/card", json=asked).json()["changes"]}
    priced = whatif.apply(whatif.Case(load("h100-sxm"), find("gemm"), GEMM["values"]), whatif.parse("batch=8"))
    assert offers["batch=8"] == pytest.approx(priced[-1].ratio)
    chain = client.post("/api/explore/changes", json={**asked, "changes": ["batch=8", "machine=b200-sxm"]}).json()
    assert len(chain["chart"]["arrows"]) == 2
    refused = client.post("/api/explore/changes", json={**asked, "changes": ["machine=/etc/x.toml"]})
    assert refused.status_code == 400
    assert "unknown machine" in refused.json()["error"]


def test_a_comparison_gives_the_factor_of_times(client):
    asked = {"machines": ["a100-sxm-80gb", "h200-sxm"], "lines": ["gemm m=1 n=4096 k=4096", "softmax rows=64 cols=64"]}
    reply = client.post("/api/compare", json=asked).json()
    (_, before, after, factor, _), _ = reply["table"]["cells"]
    assert float(factor) == pytest.approx(float(before) / float(after), rel=0.01)
    assert len(reply["factors"]["bars"]) == 2


@pytest.mark.parametrize("form", ["png", "svg", "csv", "json", "html"])
def test_what_is_saved_is_a_file_of_a_fixed_name(client, form):
    reply = client.post(f"/api/explore/export?format={form}", json={"machines": ["h100-sxm"], "cases": [GEMM]})
    assert reply.headers["content-disposition"] == f'attachment; filename="ridgeline-rooflines.{form}"'
    start = {"png": b"\x89PNG", "svg": b"<?xml", "csv": b"case,", "json": b"{", "html": b"<!DOCTYPE html>"}[form]
    assert reply.content.startswith(start)


def test_ticks_have_texts_beyond_the_range(client):
    x = client.post("/api/explore", json={"machines": ["h100-sxm"], "cases": [GEMM]}).json()["chart"]["x"]
    values = [value for value, _ in x["ticks"]]
    assert min(values) < x["range"][0]
    assert max(values) > x["range"][1]
    assert [64, "64"] in x["ticks"]


def test_a_body_that_is_no_json_is_said_to_be_none(client):
    reply = client.post("/api/explore", content=b"{bad", headers={"content-type": "application/json"})
    assert (reply.status_code, reply.json()) == (422, {"error": "the body is not JSON"})


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"batch": 10**12}, "batch must be at most 16777216"),
        ({"batch": 1e30}, "batch is too large"),
        ({"batch": "x"}, "batch must be a whole number"),
        ({"config": [1]}, "config must be a JSON object"),
    ],
)
def test_a_refused_value_is_said_in_plain_words(client, asked, said):
    reply = client.post("/api/model", json={"model": "gpt2", "machine": "h200-sxm", **asked})
    assert (reply.status_code, reply.json()["error"]) == (422, said)
