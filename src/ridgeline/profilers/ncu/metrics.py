"""What Nsight Compute counts, as data: ridgeline's short names, how each follows from ncu's metrics, and since when.

A formula is a sum of ncu metrics, each with an optional factor (`2 x name`), over another such sum after ` / `. The first
formula whose metrics a report has is the one used, and it is kept with the number as its definition. A `.sum` that a
report gives only per second or per cycle is multiplied back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

HOPPER = 9.0
AMPERE = 8.0
BLACKWELL = 10.0


@dataclass(frozen=True)
class Way:
    """One formula, and the compute capabilities that have its metrics."""

    formula: str
    since: float = 7.0
    before: float = 99.0
    asked: bool = True  # False: whole sections bring it, ncu does not take it by name

    def fits(self, capability: float) -> bool:
        return self.since <= capability < self.before


@dataclass(frozen=True)
class Metric:
    """`kind` is flops, bytes, counter or condition; `use` is roofline or diagnosis. Shares are fractions of 1."""

    name: str
    kind: str
    use: str
    unit: str
    ways: tuple[Way, ...]
    meaning: str


def _row(
    name: str, kind: str, use: str, unit: str, *ways: str | Way, meaning: str, since: float = 7.0, before: float = 99.0
) -> Metric:
    formulas = tuple(way if isinstance(way, Way) else Way(way, since, before) for way in ways)
    return Metric(name, kind, use, unit, formulas, meaning)


def _simt(letter: str, add: int, fma: int, unit: str = "smsp") -> str:
    base = f"{unit}__sass_thread_inst_executed_op_{letter}"
    weight = f"{add} x " if add > 1 else ""
    return f"{weight}{base}add_pred_on.sum + {weight}{base}mul_pred_on.sum + {fma} x {base}fma_pred_on.sum"


_FP32 = _simt("f", 1, 2)
_PACKED = " + ".join(
    f"{weight} x smsp__sass_thread_inst_executed_op_{op}_pred_on.sum" for op, weight in (("fadd2", 2), ("fmul2", 2), ("ffma2", 4))
)  # fmt: skip

# Operations of the tensor units, chip by chip: dtype, compute capabilities, the parent metrics, and the metrics below
# them that tell 2:4-sparse products (`_sparsity_on`) from dense ones. Either give the work, never both.
PATH = "sm__ops_path_tensor_"
_A, _H, _B, _BX = (AMPERE, HOPPER), (HOPPER, BLACKWELL), (BLACKWELL, 12.0), (12.0, 99.0)
_TF32, _BF16, _HALF = "src_tf32_dst_fp32", "src_bf16_dst_fp32", ("src_fp16_dst_fp16", "src_fp16_dst_fp32")
TENSOR: tuple[tuple[str, tuple[float, float], tuple[str, ...], tuple[str, ...]], ...] = (
    ("fp64", (AMPERE, 99.0), ("src_fp64",), ()),
    *((dtype, chips, (parent,), tuple(f"{op}{parent}" for op in ops))
      for dtype, parent in (("tf32", _TF32), ("bf16", _BF16))
      for chips, ops in ((_A, ("",)), (_H, ("op_hmma_", "op_hgmma_")), (_B, ("op_hmma_", "op_utchmma_")), (_BX, ("op_hmma_",)))),
    ("fp16", _A, _HALF, _HALF),
    ("fp16", _H, ("src_fp16",), (*(f"op_hmma_{name}" for name in _HALF), "op_hgmma_src_fp16")),
    ("fp16", _B, _HALF, tuple(f"{op}_{name}" for op in ("op_hmma", "op_utchmma") for name in _HALF)),
    ("fp16", _BX, _HALF, tuple(f"op_hmma_{name}" for name in _HALF)),
    ("fp8", (8.9, BLACKWELL), ("src_fp8",), ("src_fp8",)),
    ("fp8", _B, ("src_fp4_fp6_fp8_dst_fp16", "src_fp4_fp6_fp8_dst_fp32"), tuple(f"op_utcqmma_src_fp4_fp6_fp8_dst_{to}" for to in ("fp16", "fp32"))),
    ("fp4", _B, ("src_fp4_dst_fp32",), ("op_utcomma_src_fp4_dst_fp32",)),
    *(("int8", chips, ("src_int8",), tuple(f"{op}src_int8" for op in ops))
      for chips, ops in ((_A, ("",)), (_H, ("op_imma_", "op_igmma_")), (_B, ("op_imma_", "op_utcimma_")), (_BX, ("op_imma_",)))),
    ("int4", _A, ("src_int4",), ("src_int4",)),
    ("int1", (AMPERE, BLACKWELL), ("src_int1",), ()),
)  # fmt: skip
DTYPES = tuple(dict.fromkeys(row[0] for row in TENSOR))


def _ops(names: tuple[str, ...], ending: str = "") -> str:
    return " + ".join(f"{PATH}{name}{ending}.sum" for name in names)


def _tensor_rows() -> list[Metric]:
    rows = []
    for dtype in DTYPES:
        chips_of = [row for row in TENSOR if row[0] == dtype]
        dense = [Way(_ops(parents), *chips) for _, chips, parents, _ in chips_of]
        dense += [Way(_ops(children, "_sparsity_off"), *chips) for _, chips, _, children in chips_of if children]
        if dtype == "fp16":
            # Each Volta HMMA does 512 operations; on later chips instructions carry no fixed number.
            dense.append(Way("512 x sm__inst_executed_pipe_tensor.sum", 7.0, 7.1))
        rows.append(_row(f"tensor.{dtype}", "flops", "roofline", "flop", *dense, meaning=f"{dtype} operations of the tensor units, padding of the tiles included; 2:4-sparse ones are apart"))  # fmt: skip
        sparse = [Way(_ops(children, "_sparsity_on"), *chips) for _, chips, _, children in chips_of if children]
        if sparse:
            rows.append(_row(f"tensor-sparse.{dtype}", "flops", "diagnosis", "flop", *sparse, meaning=f"2:4-sparse {dtype} operations of the tensor units"))  # fmt: skip
    return rows


_GLOBAL = "pipe_lsu_mem_global_op_"
_REQUESTS = f"l1tex__t_requests_{_GLOBAL}"
_LOCAL = "l1tex__t_sectors_pipe_lsu_mem_local_op_"
_SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_"
_BANKS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_"
_ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
_ACTIVE = ".avg.pct_of_peak_sustained_active"
_OF_ELAPSED = _ELAPSED.removeprefix(".avg")
_OPS = "smsp__sass_thread_inst_executed_op_"

STALLS = {
    "barrier": "waiting at a block barrier", "branch_resolving": "waiting for a branch target",
    "dispatch_stall": "held by the dispatcher", "drain": "waiting for stores to drain at exit",
    "gmma": "waiting for a warp-group matrix product", "imc_miss": "waiting for the constant cache",
    "lg_throttle": "queue of global and local memory full", "long_scoreboard": "waiting for global or local memory",
    "math_pipe_throttle": "the arithmetic pipe is busy", "membar": "waiting at a memory barrier",
    "mio_throttle": "queue of shared memory and special functions full", "misc": "other reasons",
    "no_instruction": "waiting for instructions", "not_selected": "ready, another warp was chosen",
    "selected": "issuing", "short_scoreboard": "waiting for shared memory or special functions",
    "sleeping": "asleep", "tex_throttle": "queue of the texture unit full", "wait": "fixed wait between instructions",
}  # fmt: skip

METRICS: tuple[Metric, ...] = (
    # Work
    _row("vector.fp64", "flops", "roofline", "flop", _simt("d", 1, 2), _simt("d", 1, 2, "sm"), meaning="fp64 operations of the vector units, a multiply-add as two"),
    _row("vector.fp32", "flops", "roofline", "flop", Way(f"{_FP32} + {_PACKED}", *_B), _FP32, _simt("f", 1, 2, "sm"), meaning="fp32 operations of the vector units, a multiply-add as two"),
    _row("vector.fp16", "flops", "roofline", "flop", _simt("h", 2, 4), _simt("h", 2, 4, "sm"), meaning="fp16 operations of the vector units, every instruction taken as packed for two numbers (others count half as many); compilers also move constants with them"),
    *_tensor_rows(),
    # Traffic
    _row("hbm", "bytes", "roofline", "B", "dram__bytes.sum", "dram__bytes_read.sum + dram__bytes_write.sum", "dram__bytes_op_read.sum + dram__bytes_op_write.sum", meaning="bytes between the device memory and L2, both directions"),
    _row("l2", "bytes", "roofline", "B", "l1tex__m_xbar2l1tex_read_bytes.sum + l1tex__m_l1tex2xbar_write_bytes.sum", "lts__t_bytes.sum", meaning="bytes between L2 and the multiprocessors, both directions, as the multiprocessors see it; else all tag traffic"),
    _row("l1", "bytes", "roofline", "B", "l1tex__t_bytes.sum", Way("128 x l1tex__lsu_writeback_active_mem_lgds.sum", HOPPER), Way("128 x l1tex__lsu_writeback_active_mem_lg.sum", 7.5, HOPPER), meaning="bytes through the L1 tag stage, else what L1 returned to registers"),
    _row("shared", "bytes", "roofline", "B", f"128 x {_SHARED}ld.sum + 128 x {_SHARED}st.sum", f"128 x {_SHARED.removesuffix('_op_')}.sum", meaning="bytes of shared memory, 128 per wavefront"),
    _row("hbm_read", "counter", "roofline", "B", Way("dram__bytes_read.sum", before=12.0), Way("dram__bytes_op_read.sum", 12.0), meaning="bytes read from the device memory"),
    _row("hbm_write", "counter", "roofline", "B", Way("dram__bytes_write.sum", before=12.0), Way("dram__bytes_op_write.sum", 12.0), meaning="bytes written to the device memory; what stays in L2 is not among them"),
    _row("l2_to_sm", "counter", "roofline", "B", "l1tex__m_xbar2l1tex_read_bytes.sum", "32 x lts__lts2xbar_cycles_active.sum", meaning="bytes from L2 to the multiprocessors"),
    _row("tma", "counter", "diagnosis", "B", "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum", since=HOPPER, meaning="bytes the bulk copy unit loaded into shared memory, past L1"),
    # Time and clocks
    _row("time", "condition", "roofline", "s", "gpu__time_duration.sum", "gpu__time_duration.avg", "sm__cycles_elapsed.avg / sm__cycles_elapsed.avg.per_second", meaning="device time of the kernel"),
    _row("sm_clock", "condition", "roofline", "Hz", "sm__cycles_elapsed.avg.per_second", "smsp__cycles_elapsed.avg.per_second", "gpc__cycles_elapsed.avg.per_second", meaning="clock of the multiprocessors while the kernel ran"),
    _row("dram_clock", "condition", "roofline", "Hz", "dram__cycles_elapsed.avg.per_second", meaning="clock of the device memory"),
    _row("passes", "condition", "roofline", "1", "profiler__replayer_passes", meaning="times the kernel was replayed to count everything"),
    _row("cycles", "counter", "roofline", "cycle", "sm__cycles_elapsed.max", "sm__cycles_elapsed.avg", meaning="cycles from start to end"),
    _row("sm_active", "counter", "diagnosis", "1", "sm__cycles_active.avg / sm__cycles_elapsed.avg", meaning="share of the time a multiprocessor had work; low when the grid is too small or unbalanced"),
    # How evenly the instances of a unit are loaded: the busiest over their mean
    *(_row(name, "counter", "diagnosis", "1", f"{metric}.max / {metric}.avg", *others, meaning=text)
      for name, metric, others, text in (
          ("sm_imbalance", "sm__cycles_active", (), "active cycles of the busiest multiprocessor over their mean"),
          ("l2_imbalance", "lts__t_sectors", (f"lts__t_sectors.max{_OF_ELAPSED} / lts__t_sectors{_ELAPSED}",), "sectors of the busiest L2 slice over their mean"),
          ("hbm_imbalance", "dram__cycles_active", (), "active cycles of the busiest memory channel over their mean"))),
    _row("l2_slice_busy", "counter", "diagnosis", "1", f"lts__throughput.max{_OF_ELAPSED}", meaning="busiest L2 slice"),
    # Launch
    _row("blocks", "counter", "diagnosis", "block", "launch__grid_size", meaning="blocks of the grid"),
    _row("threads_per_block", "counter", "diagnosis", "thread", "launch__block_size", meaning="threads of a block"),
    _row("threads", "counter", "diagnosis", "thread", "launch__thread_count", meaning="threads of the grid"),
    _row("registers", "counter", "diagnosis", "register", "launch__registers_per_thread", meaning="registers per thread"),
    _row("shared_per_block", "counter", "diagnosis", "B", "launch__shared_mem_per_block", "launch__shared_mem_per_block_static + launch__shared_mem_per_block_dynamic + launch__shared_mem_per_block_driver", meaning="shared memory of a block, the driver's own part included"),
    _row("cluster", "counter", "diagnosis", "block", "launch__cluster_size", since=HOPPER, meaning="blocks of a cluster; 0 without clusters"),
    _row("sms", "counter", "diagnosis", "SM", "launch__sm_count", meaning="multiprocessors of the device"),
    _row("waves", "counter", "diagnosis", "wave", "launch__waves_per_multiprocessor", meaning="rounds of resident blocks each multiprocessor runs"),
    # Occupancy
    _row("occupancy", "counter", "diagnosis", "1", f"sm__warps_active{_ACTIVE}", meaning="resident warps over the most there can be, while active"),
    _row("occupancy_limit", "counter", "diagnosis", "1", "sm__maximum_warps_per_active_cycle_pct", meaning="occupancy the launch allows"),
    *(_row(f"blocks_by_{word}", "counter", "diagnosis", "block", f"launch__occupancy_limit_{metric}", meaning=f"blocks per multiprocessor that {text} allow")
      for word, metric, text in (("registers", "registers", "registers"), ("shared", "shared_mem", "shared memory"), ("warps", "warps", "warps"), ("slots", "blocks", "block slots"))),
    # Spills
    _row("spills", "counter", "diagnosis", "inst", Way("sass__inst_executed_register_spilling", asked=False), Way("derived__local_spilling_requests", asked=False), meaning="instructions that spill registers to memory"),
    _row("local_sectors", "counter", "diagnosis", "sector", f"{_LOCAL}ld.sum + {_LOCAL}st.sum", meaning="32-byte sectors of local memory: spilled registers and arrays of a thread"),
    # Issue
    _row("issue", "counter", "diagnosis", "1", f"smsp__issue_active{_ACTIVE}", meaning="share of cycles in which a scheduler issues"),
    _row("eligible_warps", "counter", "diagnosis", "warp", "smsp__warps_eligible.avg.per_cycle_active", meaning="warps per scheduler ready to issue"),
    _row("active_warps", "counter", "diagnosis", "warp", "smsp__warps_active.avg.per_cycle_active", meaning="warps per scheduler"),
    _row("latency", "counter", "diagnosis", "cycle", "smsp__average_warp_latency_per_inst_issued.ratio", meaning="cycles of a warp between two instructions"),
    *(_row(f"stall.{reason}", "counter", "diagnosis", "warp", f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio", since=HOPPER if reason == "gmma" else 7.0, before=BLACKWELL if reason in ("gmma", "imc_miss") else 99.0, meaning=f"warps per issued instruction: {text}")
      for reason, text in STALLS.items()),
    _row("threads_per_instruction", "counter", "diagnosis", "thread", "smsp__thread_inst_executed_per_inst_executed.ratio", meaning="threads that take part in an instruction, of 32; fewer where branches part them"),
    _row("enabled_per_instruction", "counter", "diagnosis", "thread", "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio", meaning="threads that take part in an instruction and are not switched off by a predicate, of 32"),
    _row("instructions", "counter", "diagnosis", "inst", "smsp__inst_executed.sum", meaning="instructions of warps"),
    _row("thread_instructions", "counter", "diagnosis", "inst", "smsp__thread_inst_executed.sum", meaning="instructions of threads"),
    _row("integer_instructions", "counter", "diagnosis", "inst", f"{_OPS}integer_pred_on.sum", meaning="integer instructions of threads: addresses, indices, counters"),
    _row("conversions", "counter", "diagnosis", "inst", f"{_OPS}conversion_pred_on.sum", meaning="conversions between formats, of threads"),
    # Atomics
    _row("atomics", "counter", "diagnosis", "request", f"{_REQUESTS}red.sum + {_REQUESTS}atom.sum", meaning="atomic and reduction requests of warps to global memory"),
    _row("atomic_busy", "counter", "diagnosis", "1", f"lts__d_atomic_input_cycles_active.max{_OF_ELAPSED}", meaning="atomic unit of the busiest L2 slice"),
    # Access patterns
    *(_row(f"{way}_requests", "counter", "diagnosis", "request", f"{_REQUESTS}{op}.sum", meaning=f"global {way} requests of warps")
      for way, op in (("load", "ld"), ("store", "st"))),
    *(_row(f"sectors_per_{way}", "counter", "diagnosis", "sector", f"l1tex__average_t_sectors_per_request_{_GLOBAL}{op}.ratio", f"l1tex__t_sectors_{_GLOBAL}{op}.sum / l1tex__t_requests_{_GLOBAL}{op}.sum", meaning=f"32-byte sectors a global {way} of a warp touches: 4 for 4-byte elements side by side, 32 when each is elsewhere, 0 where there are none")
      for way, op in (("load", "ld"), ("store", "st"))),
    *(_row(f"bytes_per_sector_{way}", "counter", "diagnosis", "B", f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.ratio", meaning=f"bytes used of each 32-byte sector of a global {way}")
      for way, op in (("load", "ld"), ("store", "st"))),
    _row("bank_conflicts", "counter", "diagnosis", "wavefront", f"{_BANKS}ld.sum + {_BANKS}st.sum", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", meaning="extra wavefronts of shared memory because threads met at one bank"),
    _row("shared_wavefronts", "counter", "diagnosis", "wavefront", f"{_SHARED}ld.sum + {_SHARED}st.sum", meaning="wavefronts of shared memory, conflicts included"),
    _row("l1_hit", "counter", "diagnosis", "1", "l1tex__t_sector_hit_rate.pct", meaning="share of sectors L1 had"),
    _row("l2_hit", "counter", "diagnosis", "1", "lts__t_sector_hit_rate.pct", meaning="share of sectors L2 had"),
    # How busy the units were, of what they could do at the clock they ran at
    _row("compute_busy", "counter", "diagnosis", "1", f"sm__throughput{_ELAPSED}", meaning="busiest part of the multiprocessors"),
    _row("memory_busy", "counter", "diagnosis", "1", f"gpu__compute_memory_throughput{_ELAPSED}", meaning="busiest part of the memory system"),
    _row("hbm_busy", "counter", "diagnosis", "1", f"gpu__dram_throughput{_ELAPSED}", f"dram__throughput{_ELAPSED}", meaning="device memory"),
    _row("l2_busy", "counter", "diagnosis", "1", f"lts__throughput{_ELAPSED}", meaning="L2"),
    _row("l1_busy", "counter", "diagnosis", "1", f"l1tex__throughput{_ACTIVE}", meaning="L1 and shared memory"),
    _row("tensor_busy", "counter", "diagnosis", "1", f"sm__pipe_tensor_cycles_active{_ACTIVE}", f"sm__inst_executed_pipe_tensor{_ACTIVE}", f"sm__pipe_tensor_op_hmma_cycles_active{_ACTIVE}", f"sm__pipe_tensor_op_imma_cycles_active{_ACTIVE}", meaning="tensor units, all types"),
    _row("wgmma_busy", "counter", "diagnosis", "1", f"sm__inst_executed_pipe_tensor_op_gmma{_ACTIVE}", since=HOPPER, before=BLACKWELL, meaning="matrix products of warp groups, which only Hopper has"),
    _row("mma_busy", "counter", "diagnosis", "1", f"sm__inst_executed_pipe_tensor_op_hmma{_ACTIVE}", since=HOPPER, before=BLACKWELL, meaning="matrix products of single warps in 16 and 19 bits, which Hopper runs at part of its peak"),
    *(_row(f"{name}_busy", "counter", "diagnosis", "1", f"sm__inst_executed_pipe_{pipe}{_ACTIVE}", since=since, meaning=text)
      for name, pipe, since, text in (("fma", "fma", AMPERE, "multiply-add pipe"), ("alu", "alu", 7.0, "integer, compare and select pipe"), ("fp64", "fp64", 7.0, "fp64 pipe"), ("special", "xu", 7.0, "special functions and conversions"), ("lsu", "lsu", 7.0, "load and store pipe"), ("copy", "tma", HOPPER, "bulk copy unit"))),
)  # fmt: skip

# The report's own roofs at the clock of the run: engine or level -> factor, peaks per cycle, clocks. The peak of a parent
# tensor metric is the 2:4-sparse one, so the dense metrics are asked.
_SM_CLOCKS = ("sm__cycles_elapsed.avg.per_second", "smsp__cycles_elapsed.avg.per_second")
ROOFS: dict[str, tuple[float, tuple[Way, ...], tuple[str, ...]]] = {
    **{
        f"vector.{dtype}": (factor, (Way(f"sm__sass_thread_inst_executed_op_{op}_pred_on.sum.peak_sustained"),), _SM_CLOCKS)
        for dtype, op, factor in (("fp64", "dfma", 2.0), ("fp32", "ffma", 2.0), ("fp16", "hfma", 4.0))
    },
    **{
        f"tensor.{dtype}": (
            1.0,
            tuple(
                Way(f"{PATH}{name}{'_sparsity_off' if children else ''}.sum.peak_sustained", *chips)
                for row, chips, parents, children in TENSOR
                if row == dtype
                for name in children or parents
            ),
            _SM_CLOCKS,
        )
        for dtype in DTYPES
    },
    "hbm": (1.0, (Way("dram__bytes.sum.peak_sustained"),), ("dram__cycles_elapsed.avg.per_second",)),
}  # fmt: skip

# What the details page calls them; the second half says whether the value is a share.
LABELS: dict[tuple[str, bool], str] = {
    ("Duration", False): "gpu__time_duration.sum",
    ("SM Frequency", False): "sm__cycles_elapsed.avg.per_second",
    ("DRAM Frequency", False): "dram__cycles_elapsed.avg.per_second",
    ("Elapsed Cycles", False): "sm__cycles_elapsed.max",
    ("SM Active Cycles", False): "sm__cycles_active.avg",
    ("Memory Throughput", False): "dram__bytes.sum.per_second",
    ("Memory Throughput", True): f"gpu__compute_memory_throughput{_ELAPSED}",
    ("DRAM Throughput", True): f"gpu__dram_throughput{_ELAPSED}",
    ("L2 Cache Throughput", True): f"lts__throughput{_ELAPSED}",
    ("L1/TEX Cache Throughput", True): f"l1tex__throughput{_ACTIVE}",
    ("Compute (SM) Throughput", True): f"sm__throughput{_ELAPSED}",
    ("L1/TEX Hit Rate", True): "l1tex__t_sector_hit_rate.pct",
    ("L2 Hit Rate", True): "lts__t_sector_hit_rate.pct",
    ("Local Memory Spilling Requests", False): "derived__local_spilling_requests",
    ("One or More Eligible", True): f"smsp__issue_active{_ACTIVE}",
    ("Active Warps Per Scheduler", False): "smsp__warps_active.avg.per_cycle_active",
    ("Eligible Warps Per Scheduler", False): "smsp__warps_eligible.avg.per_cycle_active",
    ("Warp Cycles Per Issued Instruction", False): "smsp__average_warp_latency_per_inst_issued.ratio",
    ("Avg. Active Threads Per Warp", False): "smsp__thread_inst_executed_per_inst_executed.ratio",
    ("Block Size", False): "launch__block_size",
    ("Grid Size", False): "launch__grid_size",
    ("Cluster Size", False): "launch__cluster_size",
    ("Threads", False): "launch__thread_count",
    ("Registers Per Thread", False): "launch__registers_per_thread",
    ("Driver Shared Memory Per Block", False): "launch__shared_mem_per_block_driver",
    ("Dynamic Shared Memory Per Block", False): "launch__shared_mem_per_block_dynamic",
    ("Static Shared Memory Per Block", False): "launch__shared_mem_per_block_static",
    ("# SMs", False): "launch__sm_count",
    ("Waves Per SM", False): "launch__waves_per_multiprocessor",
    ("Block Limit SM", False): "launch__occupancy_limit_blocks",
    ("Block Limit Registers", False): "launch__occupancy_limit_registers",
    ("Block Limit Shared Mem", False): "launch__occupancy_limit_shared_mem",
    ("Block Limit Warps", False): "launch__occupancy_limit_warps",
    ("Theoretical Occupancy", True): "sm__maximum_warps_per_active_cycle_pct",
    ("Achieved Occupancy", True): f"sm__warps_active{_ACTIVE}",
}


def terms(formula: str) -> list[list[tuple[float, str]]]:
    """Dividend and, where there is one, divisor of a formula: lists of (factor, metric)."""
    sides = []
    for side in formula.split(" / "):
        pairs = [term.rpartition(" x ") for term in side.split(" + ")]
        sides.append([(float(factor) if factor else 1.0, name) for factor, _, name in pairs])
    return sides


def metrics_of(formula: str) -> list[str]:
    return [name for side in terms(formula) for _, name in side]


def metrics_for(use: str = "diagnosis", capability: float = HOPPER) -> list[str]:
    """The smallest list of ncu metrics that serves a roofline, or a diagnosis as well, on a compute capability."""
    names: dict[str, None] = {}
    for metric in METRICS:
        way = next((way for way in metric.ways if way.fits(capability) and way.asked), None)
        if way is not None and (use == "diagnosis" or metric.use == use):
            names.update(dict.fromkeys(metrics_of(way.formula)))
    for _, peaks, clocks in ROOFS.values():
        fitting = [way.formula for way in peaks if way.fits(capability)]
        names.update(dict.fromkeys([*fitting[-1:], clocks[0]]))  # the newest instruction of a chip is its fastest
    return list(names)


def metrics_of_counters(names: Iterable[str], capability: float = HOPPER) -> list[str]:
    """The ncu metrics that give counters, by ridgeline's names of these."""
    wanted = set(names)
    metrics: dict[str, None] = {}
    for metric in METRICS:
        way = next((way for way in metric.ways if way.fits(capability) and way.asked), None)
        if way is not None and metric.name in wanted:
            metrics.update(dict.fromkeys(metrics_of(way.formula)))
    return list(metrics)
