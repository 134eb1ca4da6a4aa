"""A file from the page as a file that the importers read: private, without a name of the page's, removed at once."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ....core.errors import InputError, RidgelineError, first_line
from ....core.intake import clean
from ....core.intake.source import GZIP
from ....profilers.load import FORMATS, TOML_HINT
from ....profilers.ncu import HOW, MAGIC, SUFFIXES

MAX_UNPACKED = 512 * 2**20  # bytes; more is for the command line, which reads piece by piece and can be stopped
MAX_NAME = 80  # characters of the name of a file that messages repeat
PIECE = 1 << 20
FILE = "profile"  # whatever name the page gives
KINDS = (
    "the page reads an Nsight Compute CSV, a torch or JAX trace, the tables of other profilers, a table of cases, "
    "and JSON that ridgeline wrote"
)
XPLANE = ".xplane.pb"  # the twin of a JAX trace, which is read together with it


@dataclass(frozen=True)
class Upload:
    """The bytes of a file, and the name it had where it came from, which is only shown."""

    content: bytes
    name: str = ""

    @property
    def title(self) -> str:
        return clean(self.name.strip(), MAX_NAME) or "the pasted text"


@contextmanager
def upload_file(upload: Upload) -> Iterator[Path]:
    """The upload as a file in a folder of its own; complaints about it name the file as the page does.

    A report that only the ncu program can read is refused: no program is started on a file of the page.
    """
    if not upload.content.strip():
        raise InputError(f"{upload.title} is empty")
    if upload.content.startswith(MAGIC.encode()) or upload.name.endswith(SUFFIXES):
        raise InputError(
            f"{upload.title} is a report of Nsight Compute, which the page does not open; export it: {HOW}"
        )
    if upload.name.endswith(XPLANE):
        raise InputError(f"{upload.title} is the binary half of a JAX trace; give the .trace.json.gz next to it")
    refuse_large(upload)
    with TemporaryDirectory(prefix="ridgeline-") as folder:
        path = Path(folder) / FILE
        path.write_bytes(upload.content)
        try:
            yield path
        except RidgelineError as error:
            text = str(error).replace(TOML_HINT, "").replace(FORMATS, KINDS)
            for name in sorted({*map(str, Path(folder).iterdir()), str(path)}, key=len, reverse=True):
                text = text.replace(f"'{name}'", upload.title).replace(name, upload.title)
            raise InputError(text) from error


def refuse_large(upload: Upload) -> None:
    """InputError where a packed upload becomes too much; nothing of it is kept while it is counted."""
    if not upload.content.startswith(GZIP):
        return
    size = 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(upload.content)) as unpacked:
            while piece := unpacked.read(PIECE):
                size += len(piece)
                if size > MAX_UNPACKED:
                    break
    except EOFError as error:
        raise InputError(f"{upload.title} is cut off; copy or record it again") from error
    except (OSError, zlib.error) as error:
        raise InputError(f"{upload.title} cannot be unpacked: {first_line(error)}; record it again") from error
    if size > MAX_UNPACKED:
        limit = f"{MAX_UNPACKED >> 20} MiB"
        raise InputError(f"{upload.title} unpacks to more than {limit}; read it with `ridgeline reconcile FILE`")
