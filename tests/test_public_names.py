"""What `import ridgeline as rl` gives: every public name, each loaded when it is first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ridgeline as rl


def test_the_table_of_lazy_names_and_the_public_list_agree() -> None:
    assert {*rl._LAZY, "__version__"} == set(rl.__all__)
    assert dir(rl) == sorted(rl.__all__)


@pytest.mark.parametrize("name", rl.__all__)
def test_every_public_name_loads(name: str) -> None:
    assert getattr(rl, name) is not None


def test_an_entry_may_be_a_module() -> None:
    from ridgeline.programs import ops

    assert rl.ops is ops


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'ridgeline' has no attribute 'nothing'"):
        rl.nothing  # noqa: B018


def test_a_name_loads_only_what_it_needs() -> None:
    code = "import ridgeline, sys; ridgeline.RidgelineError; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
