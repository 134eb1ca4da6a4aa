"""Language models on the page: the same answer as the command line, names only, impossible plans explained."""

import json

import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient

from ridgeline.app.cli import main
from ridgeline.app.web.server import make_app
from ridgeline.programs.models.load import entries

QUESTION = {"model": "llama-3-8b", "machine": "h200-sxm", "batch": 16, "prompt": 1024, "generate": 128, "tp": 2}


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(make_app(), base_url="http://127.0.0.1", raise_server_exceptions=False)


def test_the_answer_is_that_of_the_command_line(client):
    words = "model llama-3-8b --on h200-sxm --batch 16 --prompt 1024 --generate 128 --tp 2"
    printed = CliRunner().invoke(main, words.split()).output.splitlines()
    reply = client.post("/api/model", json=QUESTION).json()
    assert printed[0] == reply["answer"][0]
    assert [chart["title"] for chart in reply["chart"]["charts"]] == ["prefill", "decode"]


def test_what_fits_is_what_the_software_may_fill(client):
    """94 % of the memory of an H200, of which a serving engine fills 90."""
    reply = client.post("/api/model", json={"model": "llama-3-70b", "machine": "h200-sxm"}).json()
    assert "does not fit" in reply["answer"][0]
    assert reply["fits"] is False


def test_both_phases_have_the_same_axes_and_the_totals_of_the_document(client):
    reply = client.post("/api/model", json=QUESTION).json()
    prefill, decode = reply["chart"]["charts"]
    assert prefill["x"]["range"] == decode["x"]["range"]
    assert {point["group"] for point in decode["points"] if point["role"] != "ridge"} == {"decode"}


def test_details_have_memory_curve_and_other_machines(client):
    reply = client.post("/api/model/details", json={**QUESTION, "others": ["h100-sxm"], "swept": "prompt"}).json()
    assert {chart["kind"] for chart in reply["charts"]} >= {"model memory"}
    cells = [cell for table in reply["tables"] for row in table["cells"] for cell in row]
    assert any("h100-sxm" in cell for cell in cells)
    first = reply["tables"][0]  # what another machine would bring is what people ask
    rate, gain = (first["heads"].index(head) for head in ("tok/s", f"tok/s vs {QUESTION['machine']}"))
    own, other = ([float(row[place].replace(",", "")) for place in (rate, gain)] for row in first["cells"])
    assert own[1] == 1
    assert other[1] == pytest.approx(other[0] / own[0], rel=0.01)
    assert reply["document"]["ttft_ms"] > 0


def test_a_pasted_configuration_is_the_model(client):
    config = entries()["llama-3-8b"].config
    named = client.post("/api/model", json=QUESTION).json()
    pasted = client.post("/api/model", json={**QUESTION, "model": "", "config": json.loads(json.dumps(config))}).json()
    assert pasted["figures"] == named["figures"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "/etc/passwd"}, "unknown model"),
        ({"model": "config.json"}, "unknown model"),
        ({"tp": 3}, "3"),
        ({"model": "", "config": {"model_type": "llama"}}, ""),
        ({"dtype": "fp3"}, "fp3"),
        ({"software": "magic"}, "magic"),
        ({"swept": "layers"}, "layers"),
    ],
)
def test_what_cannot_be_answered_is_said(client, change, message):
    reply = client.post("/api/model/details", json={**QUESTION, **change})
    assert reply.status_code == 400
    assert message in reply.json()["error"]


@pytest.mark.parametrize("form", ["csv", "json", "svg", "html"])
def test_the_view_can_be_saved(client, form):
    reply = client.post(f"/api/model/export?format={form}", json=QUESTION)
    assert reply.status_code == 200
    assert f'filename="ridgeline-model.{form}"' in reply.headers["content-disposition"]
    assert "gate and up" in reply.text
