"""Write docs/understand/glossary.md and reading.md from src/ridgeline/render/tables/glossary.toml, which `ridgeline glossary` shows.

python docs/make_glossary.py            write both pages
python docs/make_glossary.py --check    say whether they are what this would write (exit code 1 if not)
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

DOCS = Path(__file__).parent
WORDS = DOCS.parent / "src" / "ridgeline" / "render" / "tables" / "glossary.toml"
NOTE = "<!-- made by docs/make_glossary.py from src/ridgeline/render/tables/glossary.toml; edit that file -->"


def pages(text: str) -> dict[str, str]:
    """File name to page, from the text of the glossary file."""
    document = tomllib.loads(text)
    terms = "\n".join(f"| {term} | {cell(meaning)} |" for term, meaning in sorted(document["terms"].items()))
    reading = "\n".join(f"- {title}: {why}." for title, why in document["reading"].items())
    return {
        "understand/glossary.md": f"# Glossary\n\n{NOTE}\n\n`ridgeline glossary` prints this list, `ridgeline glossary ridge` one word.\n\n"
        f"| term | meaning |\n|---|---|\n{terms}\n",
        "understand/reading.md": f"# Further reading\n\n{NOTE}\n\n{reading}\n",
    }


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    stale = 0
    for name, page in pages(WORDS.read_text(encoding="utf-8")).items():
        path = DOCS / name
        if "--check" not in sys.argv[1:]:
            path.write_text(page, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != page:
            print(f"{path} is stale; run python docs/make_glossary.py")
            stale = 1
    return stale


if __name__ == "__main__":
    raise SystemExit(main())
