"""A folder for matplotlib where HOME is none: it would make one wherever HOME points, in the root or the current folder."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache

from ...core.errors import InputError
from ...machines.folders import folder


@cache
def keep_out_of_odd_homes() -> None:
    """Before matplotlib loads: where the user's folders are not known, its own are temporary."""
    if os.environ.get("MPLCONFIGDIR"):
        return
    try:
        folder("config"), folder("cache")
    except InputError:
        place = tempfile.mkdtemp(prefix="ridgeline-")
        atexit.register(shutil.rmtree, place, ignore_errors=True)
        os.environ["MPLCONFIGDIR"] = place
