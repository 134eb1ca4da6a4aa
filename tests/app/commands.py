"""Commands as tests run them: in this process, with their output kept apart."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from ridgeline.app.cli import main


def run(*words: str) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def answer(*words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
