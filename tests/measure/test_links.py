"""Collectives: the line through the sizes, stragglers, and real jobs on gloo under torchrun, whose times do not matter."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ridgeline.app.cli.measure import SUFFIXES, measurement
from ridgeline.core.errors import InputError, first_line
from ridgeline.core.observation import Observation, from_document
from ridgeline.core.work import Work
from ridgeline.measure.links import probes as collective
from ridgeline.measure.links.ranks import SENT
from ridgeline.measure.session import Measured
from ridgeline.programs.ops import collective as counted
from ridgeline.render.charts import measured as charts

ROOT = Path(__file__).parents[2]


def test_the_line_gives_back_what_was_put_in() -> None:
    """20 us and 5 GB/s, from 1 KiB to 64 MiB."""
    sent = [1024.0 * 4**step for step in range(9)]
    line = collective.fit(sent, [20e-6 + size / 5e9 for size in sent])
    assert line is not None
    assert line.alpha == pytest.approx(20e-6)
    assert line.beta == pytest.approx(5e9)
    assert line.error == pytest.approx(0, abs=1e-9)


def test_small_messages_count_as_much_as_large_ones() -> None:
    sent = [1024.0 * 4**step for step in range(9)]
    noise = 1 + 0.02 * np.random.default_rng(0).standard_normal(9)
    line = collective.fit(sent, [(20e-6 + size / 5e9) * factor for size, factor in zip(sent, noise, strict=True)])
    assert line is not None
    assert line.alpha == pytest.approx(20e-6, rel=0.05)
    assert line.beta == pytest.approx(5e9, rel=0.05)


def test_no_line_through_too_little() -> None:
    assert collective.fit([1.0, 2.0], [1.0, 2.0]) is None
    assert collective.fit([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) is None, "a larger message is never faster"


def test_a_slow_rank_is_named_with_its_host() -> None:
    names = [f"rank {rank} on node{rank // 2}" for rank in range(4)]
    assert collective.stragglers([10, 10.5, 6, 9.8], names, "own copy bandwidth") == [
        "rank 2 on node1 is a straggler: its own copy bandwidth is 61 % of the median"
    ]
    assert collective.stragglers([10, 10.5, 9, 9.8], names, "own copy bandwidth") == []


def test_both_links_of_a_slow_host_are_named_of_three() -> None:
    """By the median the slow ones would be the middle, and the fast one merely better."""
    told = collective.slow_links(
        [
            collective.Link("first", False, 10.0),
            collective.Link("second", False, 1.0),
            collective.Link("third", False, 1.1),
        ]
    )
    assert told == [
        "second is a straggler: its bandwidth is 10 % of the best between hosts",
        "third is a straggler: its bandwidth is 11 % of the best between hosts",
    ]


def test_a_link_between_hosts_is_not_held_against_one_within_a_host() -> None:
    fast = [collective.Link(f"within {number}", True, 400.0 + number) for number in range(6)]
    assert (
        collective.slow_links([*fast, collective.Link("out", False, 50.0), collective.Link("back", False, 48.0)]) == []
    )
    told = collective.slow_links([*fast, collective.Link("out", False, 50.0), collective.Link("back", False, 30.0)])
    assert told == ["back is a straggler: its bandwidth is 60 % of the best between hosts"]


def test_ranks_on_one_gpu_are_told() -> None:
    rows = [{"rank": 0, "gpu": "a"}, {"rank": 1, "gpu": "b"}, {"rank": 2, "gpu": "a"}]
    assert collective.shared_gpus(rows) == [
        "ranks 0 and 2 share one GPU and take turns on it: the times are not those of a link between GPUs"
    ]
    assert collective.shared_gpus([{"rank": 0, "gpu": ""}, {"rank": 1, "gpu": ""}]) == [], "CPUs have none"


def test_what_a_backend_says_comes_without_the_place_in_its_source() -> None:
    assert first_line(RuntimeError("[/a/b/tcp.cc:78] Timed out\nmore")) == "Timed out"
    assert first_line(ValueError()) == "ValueError"


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize("op", list(SENT))
def test_bytes_sent_are_those_of_the_op(op: str, ranks: int) -> None:
    """Counted here from the ring and there by the op that predicts it."""
    predicted = getattr(counted, op)(bytes=4096.0, ranks=float(ranks))
    assert SENT[op](ranks) * 4096 == pytest.approx(float(predicted.bytes_at("link")))


@pytest.mark.needs_torch
def test_outside_torchrun_the_message_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="torchrun --nproc-per-node 2"):
        collective.measure(quick=True)


def test_without_torch_the_message_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match="needs torch"):
        collective.measure()


def measured(alpha: float, beta: float) -> Measured:
    """An all-gather of two ranks that keeps to the line: half of the buffer is sent."""
    conditions = {"hosts": [{"rank": rank, "host": f"node{rank}"} for rank in range(2)], "gaps": []}
    common = {"op": "all_gather", "ranks": 2, "backend": "nccl"}
    found = []
    for size in (2**10, 2**16, 2**22):
        time = alpha + size / 2 / beta
        done = Work(moves={("link", "buffer", "write"): size / 2.0}, name="all_gather", dtype="fp32")
        settings = {**common, "bytes": size, "bus_bandwidth": size / 2 / time}
        found.append(Observation(f"all_gather {size} B", "collective.all_gather", (time,), done, settings, conditions))
    fitted = {**common, "alpha": alpha, "beta": beta, "residual_relative": 0.0}
    found.append(Observation("all_gather alpha beta", "collective.all_gather", (1.0,), Work(), fitted, conditions))
    return Measured("collective", tuple(found), None, ("rank 1 is a straggler",))


def test_the_picture_has_the_points_on_the_line_that_made_them() -> None:
    made = charts.collectives(measured(20e-6, 5e9).observations)
    (line,) = made.lines
    assert line.label == "all_gather: 20 us, 5 GB/s"
    sizes, rates = zip(*line.points, strict=True)
    for point in made.points:
        assert point.group == line.group
        assert point.y == pytest.approx(point.x / 2 / (20e-6 + point.x / 2 / 5e9))
        assert np.interp(np.log(point.x), np.log(sizes), np.log(rates)) == pytest.approx(np.log(point.y), rel=1e-3)
    assert "2 hosts" in made.subtitle


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_collectives_are_written_to_everything_but_a_machine_file(suffix: str, tmp_path: Path) -> None:
    out = tmp_path / f"links{suffix}"
    if suffix == ".toml":
        with pytest.raises(InputError, match="several machines"):
            measurement(measured(20e-6, 5e9)).write(out)
        assert not out.exists()
        return
    measurement(measured(20e-6, 5e9)).write(out)
    assert out.stat().st_size > 100
    if suffix == ".html":
        assert "rank 1 is a straggler" in out.read_text()
        assert "node1" in out.read_text()


SCRIPT = """
import json, os, sys, time
from ridgeline.core.documents import to_document
from ridgeline.core.errors import RidgelineError
from ridgeline.measure.links import probes as collective
collective.sizes = lambda backend, quick: [1024, 4096, 16384]
{before}
try:
    found = collective.measure(quick=True)
except RidgelineError as error:
    print("rank", os.environ["RANK"], error, file=sys.stderr)
    sys.exit(2)
if os.environ["RANK"] == "0":
    json.dump(to_document(found), open(sys.argv[1], "w"))
else:
    assert found == []
"""
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT / "src"),
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "CUDA_VISIBLE_DEVICES": "",
}
TIMEOUT = 600  # seconds; far more than a busy machine needs


def job(
    folder: Path, before: str = "", ranks: int = 2
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """A job of small messages in which every rank first runs `before`; the documents that rank 0 wrote."""
    script, out = folder / "job.py", folder / "out.json"
    script.write_text(SCRIPT.format(before=before))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    done = subprocess.run(
        [*command, str(script), str(out)], capture_output=True, text=True, env=ENVIRONMENT, timeout=TIMEOUT, check=False
    )
    return done, json.loads(out.read_text()) if out.exists() else []


# the third rank copies slowly; samples keep to a line of 20 us and 5 GB/s, whatever this machine takes
MADE_UP = """
measured = collective.local
def local(group):
    rates = measured(group)
    return {**rates, "copy": 1e10 if group.rank < 2 else 1e9, "product": 1e12}
collective.local = local
sample = collective.Point.sample
def on_the_line(self):
    sample(self)
    self.samples[-1] = 20e-6 + self.sent / 5e9
collective.Point.sample = on_the_line
"""


@pytest.fixture(scope="module")
def three_ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Observation]:
    done, documents = job(tmp_path_factory.mktemp("ranks"), MADE_UP, ranks=3)
    assert done.returncode == 0, done.stderr[-2000:]
    return [from_document(document) for document in documents]


@pytest.mark.needs_torch
def test_every_collective_is_sampled_between_three_ranks(three_ranks: list[Observation]) -> None:
    points = [each for each in three_ranks if not each.name.endswith("alpha beta")]
    assert {each.settings["op"] for each in points} == set(SENT)
    for each in points:
        conditions = each.conditions
        assert conditions["gaps"] == []
        assert [row["rank"] for row in conditions["hosts"]] == [0, 1, 2]
        assert all(row["host"] for row in conditions["hosts"])
        assert len(conditions["links"]) == 3
        assert len(each.samples) == 5
        assert each.settings["bus_bandwidth"] == pytest.approx(each.rate)


@pytest.mark.needs_torch
def test_every_collective_gets_the_line_through_its_samples(three_ranks: list[Observation]) -> None:
    lines = [each for each in three_ranks if each.name.endswith("alpha beta")]
    assert {each.settings["op"] for each in lines} == set(SENT)
    for each in lines:
        assert each.settings["alpha"] == pytest.approx(20e-6)
        assert each.settings["beta"] == pytest.approx(5e9)


@pytest.mark.needs_torch
def test_a_straggler_is_named_in_every_result(three_ranks: list[Observation]) -> None:
    for each in three_ranks:
        (note,) = [note for note in each.notes if note.startswith("rank 2 on ")]
        assert note.endswith("is a straggler: its own copy bandwidth is 10 % of the median")
        assert note in each.conditions["stragglers"]


@pytest.mark.needs_torch
def test_two_hosts_by_torchruns_own_rendezvous(tmp_path: Path) -> None:
    """Two agents that find each other by address, as on two machines; here both on this one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    out = tmp_path / "links.json"
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d",
        f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=test", "--local-addr=127.0.0.1",
        "-m", "ridgeline", "measure", "collective", "--quick", "--out", str(out),
    ]  # fmt: skip
    agents = [
        subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [agent.communicate(timeout=TIMEOUT) for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], said
    assert sorted(bool(text.strip()) for text, _ in said) == [False, True], "the first rank speaks for all"
    shown = max(text for text, _ in said)
    assert "ranks, measured at the same time" in shown
    assert "2 ranks, gloo" in shown
    document = json.loads(out.read_text())
    conditions = document["observations"][0]["conditions"]
    assert [row["rank"] for row in conditions["hosts"]] == [0, 1]
    assert conditions["links"][0]["bandwidth"] > 0
    assert not any("FutureWarning" in text for _, text in said), "no name of torch that is on its way out"


WRONG = """
once = collective.Point.once
def spoiled(self):
    once(self)
    if self.op == "all_reduce": self.buffer[:1] += 1
collective.Point.once = spoiled
"""


@pytest.mark.needs_torch
def test_wrong_values_are_refused(tmp_path: Path) -> None:
    done, documents = job(tmp_path, WRONG)
    assert done.returncode != 0
    assert "probe all_reduce" in done.stderr
    assert not documents


GONE = """
sample = collective.Point.sample
taken = 0
def leaving(self):
    global taken
    taken += 1
    if os.environ["RANK"] == "1" and taken == 40: time.sleep(1); os._exit(0)
    sample(self)
collective.Point.sample = leaving
"""


@pytest.mark.needs_torch
def test_a_lost_rank_leaves_what_was_measured(tmp_path: Path) -> None:
    done, documents = job(tmp_path, GONE)
    assert documents, done.stderr[-2000:]
    assert "a rank was lost" in documents[0]["conditions"]["gaps"][0]
