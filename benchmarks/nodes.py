"""Collectives between simulated hosts: network namespaces of this machine, joined by torchrun's own rendezvous.

    sudo python benchmarks/nodes.py                    three hosts on one bridge
    sudo python benchmarks/nodes.py --slow 2 --rate 1  the last one behind a link of 1 Gbit/s
    sudo python benchmarks/nodes.py --lose 1           that host's network is cut during the run

Each host has a name, an address and a torchrun of its own and reaches the others through its network card alone, as
between machines; only the processors and the kernel are shared, so the figures are those of this machine's bridge.
Linux, root, the packages iproute2 (with tc) and util-linux.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
BRIDGE, PREFIX, PORT = "rl-bridge", "rl-node", 29411


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def address(node: int) -> str:
    return f"10.211.7.{node + 1}"


@contextlib.contextmanager
def network(nodes: int) -> Iterator[None]:
    """Namespaces on one bridge; gone afterwards, and before, should an earlier run have left them."""

    def remove() -> None:
        for words in (
            *(["link", "del", f"rl-port{node}"] for node in range(nodes)),
            *(["netns", "del", f"{PREFIX}{node}"] for node in range(nodes)),
            ["link", "del", BRIDGE],
        ):
            subprocess.run(["ip", *words], check=False, stderr=subprocess.DEVNULL)

    remove()
    try:
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("link", "set", BRIDGE, "up")
        for node in range(nodes):
            name = f"{PREFIX}{node}"
            ip("netns", "add", name)
            ip("link", "add", f"rl-port{node}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"rl-port{node}", "master", BRIDGE, "up")
            ip("-n", name, "addr", "add", f"{address(node)}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield
    finally:
        remove()


def throttle(node: int, gigabits: float) -> None:
    """What the host sends and what is sent to it, each way no faster than so many Gbit/s."""
    limit = ["root", "tbf", "rate", f"{gigabits}gbit", "burst", "128kb", "latency", "100ms"]
    subprocess.run(["tc", "qdisc", "add", "dev", f"rl-port{node}", *limit], check=True)
    subprocess.run(["tc", "-n", f"{PREFIX}{node}", "qdisc", "add", "dev", "eth0", *limit], check=True)


def start(node: int, nodes: int, ranks: int, hosts: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
    name = f"{PREFIX}{node}"
    job = [
        sys.executable, "-m", "torch.distributed.run", f"--nnodes={nodes}", f"--nproc-per-node={ranks}",
        "--rdzv-backend=c10d", f"--rdzv-endpoint={address(0)}:{PORT}", "--rdzv-id=nodes",
        f"--local-addr={address(node)}", "-m", "ridgeline", "measure", "collective", *arguments,
    ]  # fmt: skip
    rename = f'mount --bind {hosts} /etc/hosts && hostname {name} && exec "$@"'
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
    enter = ["ip", "netns", "exec", name, "unshare", "--uts", "--mount", "sh", "-c", rename, "sh"]
    return subprocess.Popen([*enter, *job], env=environment)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=1, help="ranks of each host")
    parser.add_argument("--slow", type=int, help="the host whose link is throttled")
    parser.add_argument("--rate", type=float, default=1.0, help="Gbit/s of that link")
    parser.add_argument("--lose", type=int, help="the host whose link is cut while samples are taken")
    parser.add_argument("--after", type=float, default=20.0, help="seconds until then")
    parser.add_argument("arguments", nargs="*", help="after --: further arguments of `ridgeline measure collective`")
    options = parser.parse_args()
    missing = [tool for tool in ("ip", "tc", "unshare", "hostname") if not shutil.which(tool)]
    if os.geteuid() != 0 or missing:
        print(f"network namespaces need root and iproute2; missing: {', '.join(missing) or 'root'}")
        return 2
    with network(options.nodes), tempfile.TemporaryDirectory() as folder:
        hosts = Path(folder) / "hosts"
        names = [f"{address(node)} {PREFIX}{node}" for node in range(options.nodes)]
        hosts.write_text("\n".join(["127.0.0.1 localhost", *names, ""]), encoding="ascii")
        if options.slow is not None:
            throttle(options.slow, options.rate)
        jobs = [start(node, options.nodes, options.ranks, hosts, options.arguments) for node in range(options.nodes)]
        if options.lose is not None:
            time.sleep(options.after)
            ip("link", "set", f"rl-port{options.lose}", "down")
        try:
            return max(job.wait() for job in jobs)
        finally:
            for job in jobs:
                job.terminate()


if __name__ == "__main__":
    raise SystemExit(main())
