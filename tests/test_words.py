"""The project speaks as performance engineers do: sentences that read like a translation stay out of every file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACES = ("src", "docs", "examples")
SUFFIXES = (".py", ".toml", ".md", ".c", ".h", ".cu", ".triton", ".sh", ".txt")

# Sentences that were found hard to trust, by what to write instead. Spaces match line breaks too.
BANNED = {
    r"(in )?four cases (out )?of five": "80 % interval",
    r"% of it is the floor": "% of roofline",
    r"(are|were) told within": "held-out error 3 % median, 11 % P90",
    r"(timings|machines) left out are": "held-out error, leave-one-machine-out error",
    r"sure of the side": "confidence, printed below 95 %",
    r"turns compute-bound (from|at)": "compute-bound at m >= 310",
    r"compute-bound from \w+ ?=": "compute-bound at m >= 310",
    r"(fast|slow) because": "84 % of the time is in compute-bound kernels",
    r"in place of (hbm|l2|l1|dram)": "instruction-issue-bound (predicted: HBM-bound)",
    r"(as )?cases nearby took": "correction from similar measured shapes",
    r"low efficiency of the limiter": "below peak rate on the limiting unit",
    r"neighbouring (threads|addresses)": "coalesce global-memory accesses",
    r"sending a kernel, on the host": "host launch overhead",
    r"where good kernels live": "typical of tuned kernels; look elsewhere",
    r"kernels live": "typical of tuned kernels",
    r"predicted and measured on here": "predicted vs measured on this machine",
    r"a product of \d+ cubed": "bf16 GEMM 8192^3",
    r"for ever larger": "AI limit for large batch",
    r"its file has no": "no latency data for this machine",
    r"what the host takes": "dispatch cost per launch",
    r"takes to send (one|a kernel)": "dispatch cost per launch",
    r"disturbed:": "noisy: 2 samples preempted",
    r"had the core": "noisy: 2 samples preempted",
    r"were not checked here": "counters not validated on this machine: run `ridgeline profile --self-check`",
    r"above the roof: measure again": "above the roofline (138 %): the reason",
    r"told to end": "stopped by SIGTERM",
    r"tell(s)? the truth": "counters validated",
    r"roof(s)? stand(s)?\b": "the roof is",
    r"timings tell": "timings show",
}

# Words that say little, in sentences that people read: string literals of the source and prose of the docs.
EMPTY = {
    r"\bin the middle\b": "median",
    r"\btold\b(?! apart)": "say what was predicted, measured or reported",
    r"\bbeside\b": "next to, with, compared with",
    r"\bstands? (here|apart|in|for|beside)\b": "is, replaces, represents",
    r"\bspeaks? of\b": "is about",
    r"\bnobody (says|knows|publishes)\b": "unknown",
    r"\ball alike\b": "equally",
    r"\d%(?![\w}])": "a space before the sign: 84 %",
    r"\{[^{}]*:\.\d%\}": "units.percent",
}
# Formats that need the form.
ALLOWED = {
    "src/ridgeline/render/draw": (r"\d%(?![\w}])",),  # CSS lengths
    "src/ridgeline/app/notebook": (r"\d%(?![\w}])",),
    "src/ridgeline/profilers": (r"\d%(?![\w}])",),  # text that other tools print
}


def files() -> list[Path]:
    """Everything a person may read, without what was recorded."""
    listed = [path for place in PLACES for path in (ROOT / place).rglob("*") if path.suffix in SUFFIXES]
    return sorted(
        [*(path for path in listed if not {"__pycache__", "record", "measured"} & {*path.parts}), ROOT / "README.md"]
    )


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def spaced(pattern: str) -> re.Pattern[str]:
    """The pattern with any white space, and the frame of a comment, where it has a space."""
    return re.compile(pattern.replace(" ", r"(?:\s|\n\s*(?:#|//|\*)\s*)+"), re.I)


def segment(lines: list[bytes], node: ast.expr) -> str:
    """The source of a node; `ast.get_source_segment` splits the entire file again for each."""
    found = lines[node.lineno - 1 : node.end_lineno]
    found[-1] = found[-1][: node.end_col_offset]
    found[0] = found[0][node.col_offset :]
    return b"\n".join(found).decode()


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """What a person reads of a file, with its line: prose outside code blocks, or strings; docstrings of commands only."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        prose = re.sub(r"^(```|~~~).*?^\1", lambda block: "\n" * block[0].count("\n"), text, flags=re.M | re.S)
        prose = re.sub(r"^(    .*|<.*)$|`[^`\n]*`", "", prose, flags=re.M)
        yield from enumerate(prose.splitlines(), 1)
    elif path.suffix == ".toml":
        yield from enumerate(text.splitlines(), 1)
    elif path.suffix == ".py":
        nodes, lines = list(ast.walk(ast.parse(text))), text.encode().split(b"\n")
        hidden = {id(node.value) for node in nodes if isinstance(node, ast.Expr) and "cli" not in path.parts}
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                yield node.lineno, segment(lines, node)
            elif isinstance(node, ast.Constant) and id(node) not in hidden and " " in str(node.value):
                yield node.lineno, str(node.value)


def test_no_sentence_of_the_old_language_is_left() -> None:
    hits = []
    for path in files():
        text = path.read_text(encoding="utf-8")
        hits += [
            f"{name(path)}:{text.count(chr(10), 0, hit.start()) + 1}: '{' '.join(hit[0].split())}'; write: {instead}"
            for pattern, instead in BANNED.items()
            for hit in spaced(pattern).finditer(text)
        ]
    assert not hits, "\n".join(hits)


def allowed(path: Path) -> set[str]:
    return {pattern for place, patterns in ALLOWED.items() if name(path).startswith(place) for pattern in patterns}


def test_sentences_are_plain() -> None:
    hits = set()
    for path in files():
        patterns = {pattern: instead for pattern, instead in EMPTY.items() if pattern not in allowed(path)}
        suspect = re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.I)
        hits |= {
            f"{name(path)}:{line}: '{hit[0]}' in '{' '.join(sentence.split())[:90]}'; write: {instead}"
            for line, sentence in sentences(path)
            if suspect.search(sentence)
            for pattern, instead in patterns.items()
            for hit in re.finditer(pattern, sentence, re.I)
        }
    assert not hits, "\n".join(sorted(hits))


@pytest.mark.parametrize(
    "sentence",
    [
        "167 us, in four cases of five 149 us to 190 us",
        "timings left out are\n    # told within 3 %",
        "compute-bound from m = 310",
        "fast because compute has the time",
        "disturbed: another program",
    ],
)
def test_the_old_language_is_recognised(sentence: str) -> None:
    assert any(spaced(pattern).search(sentence) for pattern in BANNED)
