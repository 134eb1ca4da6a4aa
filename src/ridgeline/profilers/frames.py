"""Which Python frames of a trace belong to the user's program.

torch.profiler names a frame `file(line): function`, the file from the folder on Python's search path that holds it, the line
where the function begins. Frames of Python, torch and libraries installed beside it are left out.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache

from ..core.intake import clean

_FRAME = re.compile(r"(?P<file>[^<>]+\.py)\((?P<line>\d{1,9})\): (?P<function>.+)")
_INSTALLED = re.compile(r"(?:^|/)(?:site-packages|dist-packages|lib(?:64)?/python3[.\d]*)/")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:/")
SHOWN_PARTS = 2  # of an absolute path: the file and its folder
MAX_TEXT = 200  # characters of a source line
# Libraries by the folder they install; a folder of this name in the user's program is taken for the library.
LIBRARIES = frozenset({
    "accelerate", "apex", "bitsandbytes", "causal_conv1d", "datasets", "deepspeed", "diffusers", "einops", "fairscale",
    "flash_attn", "flax", "functorch", "huggingface_hub", "ignite", "jax", "keras", "lightning", "lightning_fabric",
    "mamba_ssm", "matplotlib", "megatron", "numpy", "optree", "pandas", "peft", "PIL", "pytorch_lightning", "ridgeline",
    "safetensors", "scipy", "sklearn", "sympy", "tensorboard", "tensordict", "timm", "tokenizers", "torch",
    "torch_geometric", "torchao", "torchaudio", "torchgen", "torchmetrics", "torchvision", "tqdm", "transformer_engine",
    "transformers", "triton", "trl", "typing_extensions", "vllm", "wandb", "xformers", "_distutils_hack", "pluggy",
    "_pytest", "pytest", "IPython", "ipykernel", "traitlets", "tornado", "jupyter_client",
})  # fmt: skip
# Modules of Python that training programs do not load, and whose names people give to scripts.
SCRIPT_NAMES = frozenset({"cmd", "code", "profile", "statistics", "test", "timeit", "trace"})


@lru_cache(maxsize=65536)  # the frames of a loop are the same ones over and over
def source_line(name: str) -> str:
    """`train.py:14 (step)` for a frame of the user's program; empty for any other."""
    frame = _FRAME.fullmatch(name)
    if frame is None:
        return ""
    return user_line(frame["file"], int(frame["line"]), frame["function"])


def user_line(file: str, line: int, function: str) -> str:
    """`train.py:14 (step)` for a line of the user's program; empty for one of a library."""
    file = file.replace("\\", "/")
    top = file.partition("/")[0].removesuffix(".py")
    python = top in sys.stdlib_module_names and not (top in SCRIPT_NAMES and file == f"{top}.py")
    if not file or file.startswith("<") or top in LIBRARIES or python or _INSTALLED.search(file):
        return ""
    short = "/".join(file.split("/")[-SHOWN_PARTS:]) if _ABSOLUTE.match(file) else file
    return clean(f"{short}:{line} ({function})" if function else f"{short}:{line}", MAX_TEXT)
