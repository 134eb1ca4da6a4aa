"""Many clients at once on a running explorer: every answer is compared with the one it must be.

    python benchmarks/explorer_load.py [CLIENTS] [REQUESTS]

Starts the explorer, lets 200 clients ask 10 questions each, every third of them malformed, and prints how many answers came
with which status, how many were wrong, and the median and 95th percentile of the time to an answer.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

MACHINES = ("h100-sxm", "a100-sxm-80gb", "h200-sxm", "mi300x")


@dataclass
class Result:
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(share * len(self.seconds)))]


def ask(address: str, body: bytes) -> tuple[int, dict[str, object]]:
    request = urllib.request.Request(f"{address}/api/explore", body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def client(address: str, number: int, requests: int, result: Result) -> None:
    """Questions that no other client asks: the answer names the size and the machine it is for."""
    for turn in range(requests):
        machine, size = MACHINES[(number + turn) % len(MACHINES)], 1 + number * requests + turn
        malformed = turn % 3 == 2
        case = {"op": "no-such-op" if malformed else "gemm", "values": {"m": size, "n": 4096, "k": 4096}}
        begun = time.perf_counter()
        status, reply = ask(address, json.dumps({"machines": [machine], "cases": [case]}).encode())
        result.seconds.append(time.perf_counter() - begun)
        result.statuses[status] += 1
        text = json.dumps(reply.get("answer", reply.get("error")))
        right = "unknown op" in text if malformed else f"gemm m={size} " in text and f" on {machine}," in text
        if not right or status != (400 if malformed else 200):
            result.wrong.append(f"client {number}, size {size} on {machine}: {status} {text[:200]}")


def load(address: str, clients: int, requests: int) -> Result:
    result = Result()
    with ThreadPoolExecutor(clients) as pool:
        for done in [pool.submit(client, address, number, requests, result) for number in range(clients)]:
            done.result()
    return result


def main(clients: int = 200, requests: int = 10) -> int:
    command = [sys.executable, "-m", "ridgeline", "serve", "--no-open", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        line = server.stderr.readline()
        place = re.search(r"http://[^/]+", line)
        try:
            if place is None:
                print(f"the explorer does not start: {line}")
                return 1
            result = load(place[0], clients, requests)
        finally:
            server.terminate()
    answers = ", ".join(f"{count} x {status}" for status, count in sorted(result.statuses.items()))
    print(f"{clients} clients, {requests} requests each: {answers}; {len(result.wrong)} wrong")
    print(f"median {result.percentile(0.5) * 1e3:.0f} ms, P95 {result.percentile(0.95) * 1e3:.0f} ms")
    print(*result.wrong[:5], sep="\n")
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
