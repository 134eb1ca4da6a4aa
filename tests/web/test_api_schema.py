"""Requests that nobody would type: every address of the OpenAPI description gets right answers or a described refusal."""

import json
import socket
import urllib.request

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings

from amount import WIDE
from ridgeline.app.web.server import PlainJson, make_app

schemathesis = pytest.importorskip("schemathesis")
APP = make_app(hosts=("*",))  # the generator calls itself by another name
EXAMPLES = 12 if WIDE else 4  # of each kind for each address
GEMM = {"op": "gemm", "values": {"m": 64, "n": 4096, "k": 4096, "dtype": "bf16"}}


def _operations():
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", APP)
    return [result.ok() for result in schema.get_all_operations()]


OPERATIONS = _operations()


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_every_address_answers_or_refuses_as_described(operation, mode):
    checks = [
        schemathesis.checks.not_a_server_error,
        *map(schemathesis.checks.CHECKS.get_one, ("status_code_conformance", "content_type_conformance", "response_schema_conformance")),
    ]  # fmt: skip
    made = schemathesis.GenerationMode.POSITIVE if mode == "positive" else schemathesis.GenerationMode.NEGATIVE
    if mode == "negative" and not (operation.body or operation.query or operation.path_parameters):
        pytest.skip("takes nothing that could be wrong")

    @settings(
        max_examples=EXAMPLES, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(case=operation.as_strategy(generation_mode=made))
    def asked(case):
        case.validate_response(case.call(), checks=checks)

    asked()


@pytest.fixture(scope="module")
def client():
    return TestClient(APP, base_url="http://127.0.0.1", raise_server_exceptions=False)


MALFORMED = {
    "no JSON": b"{",
    "empty": b"",
    "NaN": b'{"machines": ["h100-sxm"], "cases": [{"op": "gemm", "values": {"m": NaN, "n": 1, "k": 1}}]}',
    "infinity": b'{"machines": ["h100-sxm"], "cases": [{"op": "gemm", "values": {"m": Infinity, "n": 1, "k": 1}}]}',
    "negative": b'{"machines": ["h100-sxm"], "cases": [{"op": "gemm", "values": {"m": -1, "n": 1, "k": 1}}]}',
    "a number of 400 digits": b'{"machines": ["h100-sxm"], "cases": [{"op": "gemm", "values": {"m": 1' + b"0" * 400 + b', "n": 1, "k": 1}}]}',
    "a number of 10,000 digits": b'{"machines": ["h100-sxm"], "cases": [{"op": "gemm", "values": {"m": 1' + b"0" * 10_000 + b"}}]}",
    "deep": b'{"machines": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "not UTF-8": b'{"machines": ["\xff\xfe"]}',
    "half a character": b'{"machines": ["\\ud800"]}',
    "half a character as a key": b'{"machines": ["h100-sxm"], "cases": [{"op": "gemm", "values": {"\\ud800": 1}}]}',
    "zero bytes": b'{"machines": ["h100-sxm\\u0000"]}',
    "a list": b"[]",
    "too many machines": json.dumps({"machines": ["h100-sxm"] * 9}).encode(),
    "too many cases": json.dumps({"machines": ["h100-sxm"], "cases": [GEMM] * 65}).encode(),
    "markup": json.dumps({"machines": ["<img src=x onerror=alert(1)>"]}).encode(),
}  # fmt: skip


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_malformed_requests_are_refused_with_a_message(client, body):
    reply = client.post("/api/explore", content=body, headers={"content-type": "application/json"})
    assert 400 <= reply.status_code < 500
    assert reply.json()["error"]


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "multipart/form-data", ""])
def test_other_content_types_are_refused(client, kind):
    body = json.dumps({"machines": ["h100-sxm"]}).encode()
    assert client.post("/api/explore", content=body, headers={"content-type": kind}).status_code in (400, 415, 422)


def test_answers_stay_valid_json():
    made = PlainJson({"a": float("nan"), "b": [float("inf"), 1.5], "c": "\ud800x"})
    assert json.loads(made.body) == {"a": None, "b": [None, 1.5], "c": "?x"}


@pytest.mark.parametrize("address", ["/static/..%2f..%2fserver.py", "/static/%2e%2e/%2e%2e/etc/passwd", "/api/lessons/..%2f..%2fserver", "/static//etc/passwd", "/%00"])  # fmt: skip
def test_no_address_reaches_a_file(client, address):
    reply = client.get(address)
    assert reply.status_code in (400, 404)
    assert b"def " not in reply.content


def _sent(explorer, content):
    host, port = explorer.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as line:
        line.sendall(content)
        try:
            return line.recv(4096)
        except ConnectionError:
            return b""


def test_huge_headers_and_broken_requests_are_refused(explorer):
    host = b"Host: 127.0.0.1\r\n"
    for content in (
        b"GET /api/catalog HTTP/1.1\r\n" + host + b"X-Large: " + b"x" * 2**20 + b"\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x00\x00 not HTTP\r\n\r\n",
    ):
        reply = _sent(explorer, content)
        assert reply == b"" or reply.split()[1].startswith(b"4")
    assert b" 400 " in _sent(explorer, b"GET /api/catalog HTTP/1.1\r\nHost: evil.example\r\n\r\n")


def test_those_who_send_slowly_keep_nobody_waiting(explorer):
    host, port = explorer.removeprefix("http://").split(":")
    head = b"POST /api/explore HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"
    slow = [socket.create_connection((host, int(port))) for _ in range(60)]
    try:
        for line in slow:
            line.sendall(head)
        with urllib.request.urlopen(f"{explorer}/api/catalog", timeout=60) as reply:
            assert reply.status == 200
    finally:
        for line in slow:
            line.close()


def test_clients_at_the_same_time_each_get_their_answer(explorer):
    import runpy
    from pathlib import Path

    script = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "explorer_load.py"))
    result = script["load"](explorer, clients=30, requests=3)
    assert result.wrong == []
    assert result.statuses == {200: 60, 400: 30}
