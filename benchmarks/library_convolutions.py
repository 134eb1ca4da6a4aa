"""Which kernels cuDNN takes for convolutions and their gradients, on a machine with an NVIDIA GPU: thousands a second.

    python benchmarks/library_convolutions.py FOLDER [--seconds 150] [--processes 14]

As `library_kernels.py` does for matrix products: calls are captured into CUDA graphs that are never run. cuDNN is asked as
PyTorch asks it (first configuration of its instant heuristics that can be built, without tensor units in fp32), with room of its
own, because an allocation takes longer than all the rest. Convolutions of one channel a group are left out: for some of them
PyTorch has kernels of its own.

`timed-*.npz` hold the convolutions of benchmarks/data that were timed, `drawn-*.npz` others drawn at random, each with the
kernels it gets, in order. What it prints says for how many of a sample PyTorch itself gets the same. `benchmarks/fit_convolutions.py`
reads the files.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from judge_h200 import DATA, rows
from library_kernels import GIB, KERNEL_NODE, RELAXED, TORCH_NAMES, WIDTHS, KernelNode, share
from network_convolutions import popular
from numpy.typing import NDArray

from ridgeline.measure.cuda.cases import PLAN as DRAWS
from ridgeline.measure.cuda.draw import Draw

SIZES = ("batch", "c_in", "c_out", "h", "w", "kernel", "stride", "padding", "groups", "dilation")
OPS = ("conv2d", "conv2d_dgrad", "conv2d_wgrad", "conv_transpose2d")
GRADIENTS = (1, 2)  # places among them
DTYPES = ("bf16", "fp16", "tf32", "fp32")
LAYOUTS = ("nchw", "nhwc")
ROOM, WORKSPACE = 3 * GIB, 7 * GIB // 2
MAX_DRAWN_BYTES = GIB  # of images in and out
MAX_NODES = 64
MAX_KERNELS = 6  # that are kept of a call
ROWS_OF_FILE = 500_000
OF_KERNEL = ("kernel", "blocks", "threads", "resident")  # what is kept of each; `resident` blocks at a time on a core
SAMPLE = 40  # of the timed ones that PyTorch is asked about, by each process

# cuDNN's numbers: of formats,
FLOAT = 0
FORMATS = {"fp32": FLOAT, "tf32": FLOAT, "fp16": 2, "bf16": 9}
# descriptors,
CONVOLUTION, ENGINE, CONFIGURATION, HEURISTICS, PLAN = 1, 2, 3, 4, 5
FORWARD, WEIGHTS, IMAGES, GRAPH, PACK, TENSOR = 10, 11, 12, 15, 16, 17
OPERATIONS = {"conv2d": (FORWARD, 700), "conv2d_wgrad": (WEIGHTS, 712)}  # with their first attribute
GRADIENT_OF_IMAGES = (IMAGES, 706)
# types of attributes,
HANDLE, DATA_TYPE, INT64, FLOATING, POINTER, CONVOLUTION_MODE, HEURISTIC_MODE, NOTE, DESCRIPTOR = (
    0,
    1,
    3,
    4,
    6,
    7,
    8,
    11,
    15,
)
# attributes,
TENSOR_ALIGNMENT, TENSOR_TYPE, TENSOR_SIDES, TENSOR_STRIDES, TENSOR_NAME = 900, 901, 902, 903, 906
CONVOLUTION_TYPE, CONVOLUTION_KIND, CONVOLUTION_DILATIONS, CONVOLUTION_STRIDES = 100, 101, 102, 103
PADDINGS_AFTER, PADDINGS_BEFORE, CONVOLUTION_SIDES = 104, 105, 106
GRAPH_HANDLE, GRAPH_OPERATIONS = 800, 801
HEURISTICS_MODE, HEURISTICS_GRAPH, HEURISTICS_RESULTS = 200, 201, 202
CONFIGURATION_ENGINE, ENGINE_NOTES = 300, 1303
PLAN_HANDLE, PLAN_CONFIGURATION, PLAN_WORKSPACE = 400, 401, 402
PACK_NAMES, PACK_POINTERS, PACK_WORKSPACE = 1000, 1001, 1003
# modes and notes
CROSS_CORRELATION, INSTANT, FALLBACK, TENSOR_UNITS, NARROWED = 1, 0, 2, 0, 1
MAX_CONFIGURATIONS, MAX_NOTES = 100, 16
X, Y, W = 120, 121, 119  # names of tensors
ALIGNED = 16  # bytes

Case = dict[str, Any]
Row = tuple[int, ...]  # op, dtype, layout, then the sizes


def case_of(row: Row) -> Case:
    names = {"op": OPS[row[0]], "dtype": DTYPES[row[1]], "layout": LAYOUTS[row[2]]}
    sizes = dict(zip(SIZES, row[3:], strict=True))
    if row[0] in GRADIENTS:
        del sizes["dilation"]  # which they do not have
    return names | sizes


def row_of(case: Case) -> Row:
    """Of a row of a table, with what it leaves to the op."""
    stride = "2" if case["op"] == "conv_transpose2d" else "1"
    kernel = case.get("kernel") or ("2" if case["op"] == "conv_transpose2d" else "3")
    dilation = int(float(case.get("dilation") or 1))
    usual = 0 if case["op"] == "conv_transpose2d" else dilation * (int(float(kernel)) - 1) // 2
    given = {"kernel": kernel, "stride": stride, "padding": usual, "groups": 1, "dilation": 1} | case
    op, dtype, layout = OPS.index(case["op"]), DTYPES.index(case["dtype"]), LAYOUTS.index(case.get("layout") or "nchw")
    return (op, dtype, layout, *(int(float(given[name])) for name in SIZES))


def alone(row: Row) -> bool:
    """Whether every channel is a group by itself."""
    case = case_of(row)
    return bool(case["groups"] == case["c_in"] > 1)


def images_bytes(row: Row) -> int:
    """Of images in and out."""
    case = case_of(row)
    ho, wo = sides(case)
    return int(case["batch"] * (case["c_in"] * case["h"] * case["w"] + case["c_out"] * ho * wo) * WIDTHS[case["dtype"]])


def sides(case: Case) -> tuple[int, int]:
    """Of the image that comes out."""

    def side(of: int) -> int:
        taps = case.get("dilation", 1) * (case["kernel"] - 1) + 1
        if case["op"] == "conv_transpose2d":
            return int((of - 1) * case["stride"] - 2 * case["padding"] + taps)
        return int((of + 2 * case["padding"] - taps) // case["stride"] + 1)

    return side(case["h"]), side(case["w"])


def timed() -> list[Row]:
    """Every convolution of the default path that a table holds."""
    found: dict[Row, None] = {}
    for path in sorted(
        [*DATA.glob("h200-*calibration.csv.gz"), *DATA.glob("h200-*test.csv*"), DATA / "h200-layers.csv"]
    ):
        for case in rows(path):
            if case["op"] in OPS and not case.get("backend"):
                found[row_of(case)] = None
    return [row for row in found if images_bytes(row) <= ROOM // 2 and not alone(row)]


POPULAR_SIDES = (
    *(7, 7, 8, 10, 12, 13, 14, 14, 16, 16, 19, 20, 24, 26, 28, 28, 32, 32, 38, 40, 48, 52, 56, 56, 64, 64, 72, 80, 96),
    *(100, 112, 112, 128, 128, 150, 160, 192, 224, 256, 320, 512),
)
POPULAR_BATCHES = (
    1,
    1,
    2,
    2,
    3,
    4,
    4,
    6,
    8,
    8,
    12,
    16,
    16,
    20,
    24,
    32,
    32,
    40,
    48,
    64,
    64,
    96,
    100,
    128,
    128,
    192,
    256,
)
CHANNEL_STEPS = (4, 8, 8, 16, 16, 32, 32, 64, 64, 64, 128)
FEW = (1, 2, 3, 3, 3, 4, 6, 8, 9, 12, 16)
KERNELS = (*[1] * 30, *[3] * 34, *[5] * 9, *[7] * 8, *[2] * 4, *[4] * 4, 6, 8, 9, 11, 14, 16)


SUITE = ("conv2d", "convolution backward", "stems", "transposed", "grouped", "single pixels")
SUITE_SHARE, USUAL_SHARE, LAYERS_SHARE = 0.25, 0.35, 0.4

# of the convolutions that most networks are made of: kernel, stride, padding, and how often
USUAL_KINDS = (
    *((3, 1, 1, 34), (1, 1, 0, 34), (3, 2, 1, 8), (1, 2, 0, 4), (5, 1, 2, 4), (7, 2, 3, 3), (5, 2, 2, 2), (7, 1, 3, 2)),
    *((4, 2, 1, 2), (2, 2, 0, 3), (4, 4, 0, 2), (3, 1, 0, 1), (14, 14, 0, 0.5), (16, 16, 0, 0.5)),
)
USUAL_STEPS = (8, 8, 16, 16, 32, 32, 64, 64, 64, 128)
USUAL_GROUPS, USUAL_WIDTHS = (2, 4, 8, 16, 32, 64), (4, 8, 16, 32, 64)
OF_IMAGES, OF_HEADS = (1, 2, 3, 3, 3, 3, 4), (1, 2, 3, 4, 6, 10, 21, 91)  # channels in and out
PATCH = 14  # kernels from which on they cut images into patches


def drawn(random: np.random.Generator) -> Row | None:
    """A convolution of sizes that networks have, or of any; None where it is none."""

    def log_uniform(low: float, high: float, step: int = 1) -> int:
        return max(round(math.exp(random.uniform(math.log(low), math.log(high))) / step), 1) * step

    def channels() -> int:
        kind = random.random()
        if kind < 0.12:
            return int(random.choice(FEW))
        if kind < 0.24:
            return log_uniform(8, 1500)
        return log_uniform(12, 2048, int(random.choice(CHANNEL_STEPS)))

    op = int(random.choice(4, p=(0.36, 0.25, 0.29, 0.1)))
    layout = 0 if op == 3 else int(random.integers(2))
    batch = int(random.choice(POPULAR_BATCHES)) if random.random() < 0.7 else log_uniform(1, 256)
    h = int(random.choice(POPULAR_SIDES)) if random.random() < 0.6 else log_uniform(1, 320)
    w = h if random.random() < 0.93 else log_uniform(1, 320)
    kernel, c_in, c_out, groups, dilation = int(random.choice(KERNELS)), channels(), channels(), 1, 1
    stride = int(random.choice((1, 2, kernel), p=(0.66, 0.26, 0.08)))
    kind = random.random()
    if op == 3 and kernel > 1 and random.random() < 0.7:
        stride = max(kernel // 2, 1) if random.random() < 0.5 else kernel
    elif kind < 0.1:
        groups, width = log_uniform(2, 64), int(random.choice((2, 4, 8, 8, 16, 16, 24, 32, 48, 64, 128)))
        c_in = c_out = groups * width
        kernel = int(random.choice((1, 3, 3, 3, 5)))
    elif kind < 0.13 and op == 0:
        dilation = int(random.choice((2, 2, 3, 4, 6)))
    padding = dilation * (kernel - 1) // 2
    if stride == kernel or random.random() < 0.06:
        padding = 0
    if op == 3:
        padding = {(2, 2): 0, (4, 2): 1, (3, 1): 1, (4, 4): 0, (3, 2): 1}.get((kernel, stride), padding)
    row = (op, int(random.integers(4)), layout, batch, c_in, c_out, h, w, kernel, stride, padding, groups, dilation)
    ho, wo = sides(case_of(row))
    if min(ho, wo) < 1 or kernel > min(h, w) + 2 * padding or images_bytes(row) > MAX_DRAWN_BYTES:
        return None
    if c_in * c_out // groups * kernel**2 > 1 << 26 or (padding >= max(kernel, 2) * dilation):
        return None
    return row


def usual(random: np.random.Generator) -> Row | None:
    """A convolution or gradient as most networks have them: square, channels in steps of 8, kernels of one to seven."""

    def channels() -> int:
        step = int(random.choice(USUAL_STEPS))
        return max(round(math.exp(random.uniform(math.log(12), math.log(2048))) / step), 1) * step

    weights = np.array([often for *_, often in USUAL_KINDS])
    kernel, stride, padding, _ = USUAL_KINDS[int(random.choice(len(weights), p=weights / weights.sum()))]
    c_in = channels()
    c_out = {0: c_in, 1: max(int(c_in * random.choice((0.25, 0.5, 2, 4))), 8)}.get(int(random.integers(4)), channels())
    groups, kind = 1, random.random()
    if kernel >= PATCH or (kernel, stride) == (7, 2) or kind < 0.04:
        c_in = int(random.choice(OF_IMAGES))
    elif kind < 0.07:
        c_out = int(random.choice(OF_HEADS))
    elif kernel == 3 and kind < 0.12:
        groups = int(random.choice(USUAL_GROUPS))
        c_in = c_out = groups * int(random.choice(USUAL_WIDTHS))
    h = int(random.choice(POPULAR_SIDES)) if random.random() < 0.7 else math.ceil(math.exp(random.uniform(0.7, 5.7)))
    batch = int(random.choice(POPULAR_BATCHES)) if random.random() < 0.8 else math.ceil(2 ** random.uniform(0, 8))
    op, dtype = int(random.choice(3, p=(0.42, 0.27, 0.31))), int(random.choice(4, p=(0.3, 0.2, 0.3, 0.2)))
    row = (op, dtype, int(random.integers(2)), batch, c_in, c_out, h, h, kernel, stride, padding, groups, 1)
    if h + 2 * padding < kernel or images_bytes(row) > MAX_DRAWN_BYTES or c_in * c_out // groups * kernel**2 > 1 << 26:
        return None
    return row


def popular_layer(random: np.random.Generator) -> Row | None:
    """A layer of a network, at a usual resolution and batch."""
    row = row_of(popular(random))
    return None if alone(row) or images_bytes(row) > MAX_DRAWN_BYTES else row


def endless(random: np.random.Generator) -> Iterator[Row]:
    """Convolutions as they are drawn above, and as the suite of `ridgeline.measure` draws them."""
    suite = [draw for name, _, draw in DRAWS if name in SUITE]
    while True:
        kind = random.random()
        if kind < USUAL_SHARE + LAYERS_SHARE:
            if (row := (usual if kind < USUAL_SHARE else popular_layer)(random)) is not None:
                yield row
        elif random.random() < SUITE_SHARE:
            case = suite[int(random.integers(len(suite)))](
                Draw(random, random.random() < 0.7), int(random.integers(64))
            )
            row = row_of(case)
            if images_bytes(row) <= MAX_DRAWN_BYTES and not alone(row):
                yield row
        elif (row := drawn(random)) is not None:
            yield row


class Cudnn:
    """cuDNN's convolutions on one stream, captured and not run."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.driver, self.library = ctypes.CDLL("libcuda.so.1"), None
        self.stream = torch.cuda.Stream()
        self.on = ctypes.c_void_p(self.stream.cuda_stream)
        self.room = torch.empty(ROOM + WORKSPACE, dtype=torch.uint8, device="cuda")
        torch.nn.functional.conv2d(torch.zeros(1, 8, 8, 8, device="cuda"), torch.zeros(8, 8, 3, 3, device="cuda"))
        self.library = ctypes.CDLL("libcudnn.so.9")
        place, integer = ctypes.c_void_p, ctypes.c_int
        for name, given in (
            ("cudnnBackendSetAttribute", (place, integer, integer, ctypes.c_int64, place)),
            ("cudnnBackendGetAttribute", (place, integer, integer, ctypes.c_int64, place, place)),
            ("cudnnBackendCreateDescriptor", (integer, place)),
            ("cudnnBackendDestroyDescriptor", (place,)),
            ("cudnnBackendFinalize", (place,)),
            ("cudnnBackendExecute", (place, place, place)),
        ):
            getattr(self.library, name).argtypes = given
        self.handle = place()
        self._must(self.library.cudnnCreate(ctypes.byref(self.handle)), "a handle")
        self._must(self.library.cudnnSetStream(self.handle, self.on), "a stream")
        self.names: dict[str, int] = {}
        self._known: dict[tuple[Any, Any], tuple[int, Any]] = {}
        self._resident: dict[tuple[int, int, int], int] = {}
        self._made: list[Any] = []

    @staticmethod
    def _must(result: int, what: str) -> None:
        if result:
            raise RuntimeError(f"answered {result} to {what}")

    def _make(self, kind: int) -> Any:
        made = ctypes.c_void_p()
        self._must(self.library.cudnnBackendCreateDescriptor(kind, ctypes.byref(made)), f"descriptor {kind}")
        self._made.append(made)
        return made

    def _put(self, of: Any, name: int, kind: int, values: Any, count: int = 1) -> None:
        answer = self.library.cudnnBackendSetAttribute(of, name, kind, count, ctypes.byref(values))
        self._must(answer, f"attribute {name}")

    def _integers(self, of: Any, name: int, *values: int) -> None:
        self._put(of, name, INT64, (ctypes.c_int64 * len(values))(*values), len(values))

    def _get(self, of: Any, name: int, kind: int, into: Any, count: int = 1) -> int:
        found = ctypes.c_int64()
        answer = self.library.cudnnBackendGetAttribute(of, name, kind, count, ctypes.byref(found), into)
        self._must(answer, f"attribute {name}")
        return int(found.value)

    def _finished(self, made: Any, what: str) -> Any:
        self._must(self.library.cudnnBackendFinalize(made), what)
        return made

    def _tensor(self, name: int, dtype: str, sides: tuple[int, ...], channels_last: bool) -> Any:
        _, c, h, w = sides
        made = self._make(TENSOR)
        self._put(made, TENSOR_TYPE, DATA_TYPE, ctypes.c_int(FORMATS[dtype]))
        self._integers(made, TENSOR_SIDES, *sides)
        self._integers(made, TENSOR_STRIDES, *((c * h * w, 1, w * c, c) if channels_last else (c * h * w, h * w, w, 1)))
        self._integers(made, TENSOR_NAME, name)
        self._integers(made, TENSOR_ALIGNMENT, ALIGNED)
        return self._finished(made, "tensor")

    def _graph(self, case: Case) -> tuple[Any, list[int]]:
        """The operation of a convolution, and the bytes of x, y and w."""
        dtype, last, taps = case["dtype"], case["layout"] == "nhwc", (case["kernel"], case["kernel"])
        x = (case["batch"], case["c_in"], case["h"], case["w"])
        y = (case["batch"], case["c_out"], *sides(case))
        w = (case["c_out"], case["c_in"] // case["groups"], *taps)
        if case["op"] == "conv_transpose2d":  # the gradient of the images of the convolution that leads back
            x, y, w = y, x, (case["c_in"], case["c_out"] // case["groups"], *taps)
        conv = self._make(CONVOLUTION)
        self._put(conv, CONVOLUTION_TYPE, DATA_TYPE, ctypes.c_int(FLOAT))
        self._put(conv, CONVOLUTION_KIND, CONVOLUTION_MODE, ctypes.c_int(CROSS_CORRELATION))
        self._integers(conv, CONVOLUTION_SIDES, 2)
        for name, size in (
            (CONVOLUTION_DILATIONS, case.get("dilation", 1)),
            (CONVOLUTION_STRIDES, case["stride"]),
            (PADDINGS_AFTER, case["padding"]),
            (PADDINGS_BEFORE, case["padding"]),
        ):
            self._integers(conv, name, size, size)
        kind, first = OPERATIONS.get(case["op"], GRADIENT_OF_IMAGES)
        operation = self._make(kind)
        self._put(operation, first, FLOATING, ctypes.c_float(1.0))
        self._put(operation, first + 1, FLOATING, ctypes.c_float(0.0))
        self._put(operation, first + 2, DESCRIPTOR, self._finished(conv, "convolution"))
        for place, (name, shape) in enumerate(((W, w), (X, x), (Y, y))):
            self._put(operation, first + 3 + place, DESCRIPTOR, self._tensor(name, dtype, shape, last))
        graph = self._make(GRAPH)
        self._put(graph, GRAPH_HANDLE, HANDLE, self.handle)
        self._put(graph, GRAPH_OPERATIONS, DESCRIPTOR, self._finished(operation, "operation"))
        return self._finished(graph, "graph"), [math.prod(shape) * WIDTHS[dtype] for shape in (x, y, w)]

    def _configurations(self, graph: Any, dtype: str) -> Iterator[Any]:
        """In the order in which PyTorch tries them."""
        for mode in (INSTANT, FALLBACK):
            heuristics = self._make(HEURISTICS)
            self._put(heuristics, HEURISTICS_GRAPH, DESCRIPTOR, graph)
            self._put(heuristics, HEURISTICS_MODE, HEURISTIC_MODE, ctypes.c_int(mode))
            if self.library.cudnnBackendFinalize(heuristics):
                continue
            count = min(self._get(heuristics, HEURISTICS_RESULTS, DESCRIPTOR, None, 0), MAX_CONFIGURATIONS)
            made = (ctypes.c_void_p * count)(*(self._make(CONFIGURATION).value for _ in range(count)))
            found = self._get(heuristics, HEURISTICS_RESULTS, DESCRIPTOR, made, count)
            for configuration in list(made)[:found]:
                engine, notes = ctypes.c_void_p(self._make(ENGINE).value), (ctypes.c_int * MAX_NOTES)()
                self._get(configuration, CONFIGURATION_ENGINE, DESCRIPTOR, ctypes.byref(engine))
                noted_count = self._get(engine, ENGINE_NOTES, NOTE, notes, MAX_NOTES)
                noted = list(notes)[:noted_count]
                if dtype != "fp32" or not (TENSOR_UNITS in noted or NARROWED in noted):
                    yield configuration

    def kernels(self, case: Case) -> tuple[int, list[tuple[int, ...]]]:
        """How many nodes of a convolution are no kernels, and what is kept of each kernel."""
        try:
            graph, sizes = self._graph(case)
            base = self.room.data_ptr()
            pointers = [base + sum(-(-size // 1024) * 1024 for size in sizes[:place]) for place in range(3)]
            pack = self._make(PACK)
            self._integers(pack, PACK_NAMES, X, Y, W)
            self._put(pack, PACK_POINTERS, POINTER, (ctypes.c_void_p * 3)(*pointers), 3)
            self._put(pack, PACK_WORKSPACE, POINTER, ctypes.c_void_p(base + ROOM))
            self._finished(pack, "pack")
            for configuration in self._configurations(graph, case["dtype"]):
                plan = self._make(PLAN)
                self._put(plan, PLAN_HANDLE, HANDLE, self.handle)
                self._put(plan, PLAN_CONFIGURATION, DESCRIPTOR, ctypes.c_void_p(configuration))
                if self.library.cudnnBackendFinalize(plan):
                    continue
                need = ctypes.c_int64()
                self._get(plan, PLAN_WORKSPACE, INT64, ctypes.byref(need))
                if need.value > WORKSPACE:
                    raise RuntimeError("needs too large a workspace")
                found = self.captured(lambda plan=plan: self.library.cudnnBackendExecute(self.handle, plan, pack))
                if found is not None:
                    return found
            raise RuntimeError("has no plan")
        finally:
            for made in self._made:
                self.library.cudnnBackendDestroyDescriptor(made)
            self._made.clear()

    def captured(self, run: Any) -> tuple[int, list[tuple[int, ...]]] | None:
        """What a call puts into a graph; None where it fails."""
        driver, graph = self.driver, ctypes.c_void_p()
        self._must(driver.cuStreamBeginCapture_v2(self.on, RELAXED), "begin")
        try:
            failed = run()
        finally:
            ended = driver.cuStreamEndCapture(self.on, ctypes.byref(graph))
        if ended or (isinstance(failed, int) and failed):
            return None
        count = ctypes.c_size_t()
        self._must(driver.cuGraphGetNodes(graph, None, ctypes.byref(count)), "nodes")
        every, nodes = count.value, (ctypes.c_void_p * MAX_NODES)()
        count = ctypes.c_size_t(min(every, MAX_NODES))
        self._must(driver.cuGraphGetNodes(graph, nodes, ctypes.byref(count)), "nodes")
        kernels, node, kind = [], KernelNode(), ctypes.c_int()
        for place in range(count.value):
            each = ctypes.c_void_p(nodes[place])
            driver.cuGraphNodeGetType(each, ctypes.byref(kind))
            if kind.value == KERNEL_NODE:
                self._must(driver.cuGraphKernelNodeGetParams_v2(each, ctypes.byref(node)), "parameters")
                name, function = self._function(node)
                threads = node.block_x * node.block_y * node.block_z
                resident = self._resident_blocks(name, function, threads, node.shared)
                kernels.append((name, node.x * node.y * node.z, threads, resident))
        driver.cuGraphDestroy(graph)
        return every - len(kernels), kernels

    def _function(self, node: KernelNode) -> tuple[int, Any]:
        of = (node.function, node.kernel)
        if of not in self._known:
            name, function = ctypes.c_char_p(), ctypes.c_void_p(node.function)
            if not node.function:
                self._must(
                    self.driver.cuKernelGetFunction(ctypes.byref(function), ctypes.c_void_p(node.kernel)), "function"
                )
            self._must(self.driver.cuFuncGetName(ctypes.byref(name), function), "name")
            self._known[of] = self.names.setdefault((name.value or b"").decode(), len(self.names)), function
        return self._known[of]

    def _resident_blocks(self, name: int, function: Any, threads: int, shared: int) -> int:
        of = (name, threads, shared)
        if of not in self._resident:
            count = ctypes.c_int()
            self.driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                ctypes.byref(count), function, ctypes.c_int(threads), ctypes.c_size_t(shared)
            )
            self._resident[of] = count.value
        return self._resident[of]


def asked(cudnn: Cudnn, cases: Iterator[Row], end: float) -> tuple[list[Any], dict[str, int]]:
    """The kernels of convolutions, as many as there is time for; and how many failed at what."""
    found, failed = [], dict[str, int]()
    for row in cases:
        if time.monotonic() > end:
            break
        try:
            others, kernels = cudnn.kernels(case_of(row))
        except RuntimeError as error:
            failed[str(error)] = failed.get(str(error), 0) + 1
            continue
        flat = [number for each in kernels[:MAX_KERNELS] for number in each]
        found.append((*row, others, len(kernels), *flat, *[-1] * (len(OF_KERNEL) * MAX_KERNELS - len(flat))))
    return found, failed


class Room:
    """Operands without values, as `measure.cuda.operands.ValuePool` hands them out."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def begin(self) -> None:
        pass

    def take(self, name: str, *shape: int) -> Any:
        return self.torch.empty(shape, dtype=getattr(self.torch, TORCH_NAMES[name]), device="cuda")


def agreed(cudnn: Cudnn, cases: list[Row]) -> tuple[int, int]:
    """For how many of these convolutions PyTorch gets the same kernels, and of how many."""
    from ridgeline.measure.cuda.calls import build

    same, of = 0, 0
    with cudnn.torch.cuda.stream(cudnn.stream):
        for row in cases:
            run = build(case_of(row), cudnn.torch, "cuda", Room(cudnn.torch))  # type: ignore[arg-type]
            theirs = cudnn.captured(lambda run=run: run() is None)
            with suppress(RuntimeError):
                same += theirs == cudnn.kernels(case_of(row))
            of += 1
    return same, of


def work(folder: Path, rank: int, processes: int, seconds: float) -> None:
    cudnn, begin = Cudnn(), time.monotonic()
    known = timed()
    np.random.default_rng(1).shuffle(known)
    mine = known[rank::processes]
    same, of = agreed(cudnn, [row for row in mine[:SAMPLE] if images_bytes(row) < MAX_DRAWN_BYTES])
    print(f"process {rank}: the same kernels for {same} of {of}", flush=True)
    for kind, cases, end in (
        ("timed", iter(mine), begin + 0.8 * seconds),
        ("drawn", endless(np.random.default_rng([rank, 20261119])), begin + seconds),
    ):
        started = time.monotonic()
        found, failed = asked(cudnn, cases, end)
        if rank == 0:
            print(f"{kind}: {len(found)} in {time.monotonic() - started:.0f} s, {failed}", flush=True)
        width = 3 + len(SIZES) + 2 + len(OF_KERNEL) * MAX_KERNELS
        table = np.array(found, dtype=np.int64).reshape(-1, width)
        np.savez(folder / f"{kind}.{rank}.npz", names=np.array(list(cudnn.names)), table=table)


def merge(folder: Path, processes: int, kinds: tuple[str, ...] = ("timed", "drawn")) -> None:
    """One file for each kind, with one list of names."""
    first, step = 3 + len(SIZES) + 2, len(OF_KERNEL)
    for kind in kinds:
        paths = [folder / f"{kind}.{rank}.npz" for rank in range(processes)]
        parts = [np.load(path) for path in paths]
        names = {
            name: place for place, name in enumerate(sorted({str(each) for part in parts for each in part["names"]}))
        }
        tables: list[NDArray[np.int32]] = []
        for part in parts:
            places = np.array([*(names[str(name)] for name in part["names"]), -1])
            table = part["table"].copy()
            table[:, first::step] = places[table[:, first::step]]
            tables.append(table.astype(np.int32))
        table = np.concatenate(tables)
        for part, start in enumerate(range(0, len(table), ROWS_OF_FILE)):
            columns = np.ascontiguousarray(table[start : start + ROWS_OF_FILE].T)  # a line per column is packed tighter
            np.savez_compressed(folder / f"{kind}-{part}.npz", names=np.array(list(names)), columns=columns)
        print(f"{kind}: {len(table)} convolutions, {len(names)} kernels", flush=True)
        for path in paths:
            path.unlink()


if __name__ == "__main__":
    share(__doc__ or "", 150.0, work, merge)
