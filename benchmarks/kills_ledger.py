"""A thousand processes that seal and settle, each killed at a random moment: nothing reported is lost.

    python benchmarks/kills_ledger.py [--kills 1000] [--seed 1]

After every 50 kills the chain is verified, every record that was reported is looked for, and the next command is run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "gaps")]

from ledger_kills import killed  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts = (0, 0)
        for counts in killed(Path(folder) / "ledger.sqlite", asked.kills, asked.seed, batch=50):
            print(f"{counts[0]} records reported, {counts[1]} in the ledger, intact", flush=True)
    print(f"{asked.kills} kills: {counts[0]} records reported, none lost")


if __name__ == "__main__":
    main()
