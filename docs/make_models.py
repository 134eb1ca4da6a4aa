"""Write the table of known models in docs/use/models.md, from src/ridgeline/programs/models/known.

python docs/make_models.py            write the table
python docs/make_models.py --check    say whether it is what this would write (exit code 1 if not)
"""

from __future__ import annotations

import sys
from pathlib import Path

from ridgeline.programs.models.load import architecture, known
from ridgeline.programs.models.parameters import kv_bytes_per_token, parameters

PAGE = Path(__file__).parent / "use" / "models.md"
START, END = "<!-- models: made by docs/make_models.py -->", "<!-- end of models -->"


def row(name: str) -> str:
    model = architecture(name)
    count = parameters(model)
    active = f"{count.active / 1e9:.3g} B" if count.idle else ""
    cache = f"{kv_bytes_per_token(model) / 1024:,.4g} KiB" if model.causal else ""
    return f"| {name} | {count.total:,} | {active} | {model.depth} | {model.hidden:,} | {cache} |"


def filled(page: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(START)
    after = rest.partition(END)[2]
    rows = "\n".join(row(name) for name in known())
    head = "| model | parameters | active | layers | hidden | cache per token, bf16 |\n|---|--:|--:|--:|--:|--:|"
    return f"{before}{START}\n\n{head}\n{rows}\n\n{END}{after}"


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(filled(page), encoding="utf-8")
    elif filled(page) != page:
        print(f"{PAGE} is stale; run python docs/make_models.py")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
