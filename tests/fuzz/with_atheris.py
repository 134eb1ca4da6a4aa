"""`python -m fuzz.with_atheris`: the same targets under atheris (libFuzzer), where it is installed."""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

CORPUS = Path(__file__).with_name("corpus")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fuzz.with_atheris", description=__doc__)
    parser.add_argument("--seconds", type=int, default=600, help="for each target")
    parser.add_argument("--targets", default="", help="names, separated by commas or spaces; all where left out")
    parser.add_argument("--only", help="run this target in this process")
    options = parser.parse_args()
    if find_spec("atheris") is None:
        print("atheris is not installed (`pip install atheris` needs clang where there is no wheel): engine skipped")
        return
    if options.only:
        one(options.only, options.seconds)
    chosen = options.targets.replace(",", " ").split() or [path.name for path in sorted(CORPUS.iterdir())]
    words = [sys.executable, "-m", "fuzz.with_atheris", "--seconds", str(options.seconds), "--only"]
    failed = [name for name in chosen if subprocess.run([*words, name], check=False).returncode]
    print(f"atheris: {len(chosen)} targets, findings in {', '.join(failed) or 'none'}")
    sys.exit(1 if failed else 0)


def one(name: str, seconds: int) -> None:
    """libFuzzer ends the process at the first finding and keeps its input in the working folder."""
    import atheris  # type: ignore[import-not-found]

    with atheris.instrument_imports(include=["ridgeline"]):
        from fuzz.targets import TARGETS
        from ridgeline.core.errors import RidgelineError

    def call(data: bytes) -> None:
        try:
            TARGETS[name](data)
        except RidgelineError:
            return

    limits = ("-timeout=10", "-rss_limit_mb=1500", "-max_len=100000", f"-max_total_time={seconds}")
    atheris.Setup([sys.argv[0], *limits, str(CORPUS / name)], call)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
