"""Watcher: what is recorded of a program that uses torch or JAX, and when.

The file needs the standard library only and nothing of ridgeline: `script.py` loads it in the interpreter of the program.
torch or JAX are found when the program imports them; nothing is loaded or initialised earlier than the program does itself.

Recording begins with the import and is ended after some steps, so that a long program costs little: steps are what the
program marks (`ridgeline.step()`), else optimizer steps, else batches of a DataLoader. Without any, recording ends after
some seconds; if steps begin later, it begins anew with them. The program then goes on without the profiler. Python's calls
are not recorded while further packages are imported, nor from there to the first call of a module or the first step.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from itertools import pairwise
from types import FrameType, ModuleType
from typing import Any

MARKED, OPTIMIZER, BATCH = "ridgeline.step()", "optimizer steps", "DataLoader batches"
RANK = (MARKED, OPTIMIZER, BATCH)  # which of them are the steps, first to last
MIN_STEPS = 3  # before the time limit ends a recording
AWAITED = 2  # steps after the recording between two waits for the device: a host that runs ahead does not show how long they take
RAN_AHEAD = 0.9  # of their time, below which the host's steps are shorter than the device's
MAX_OPTIMIZERS = 4  # steps of theirs that are recorded for one where no order of several optimizers shows
COMPILING = 12  # times as long as others are programs recorded that compile and have no steps
TRACE, FACTS = "trace.json.gz", "facts.json"
# Of a program that torchrun started, whose other ranks are not recorded.
RANKS = int(os.environ.get("WORLD_SIZE", "1")) if "TORCHELASTIC_RUN_ID" in os.environ else 1


def waited_for_core() -> float:
    """Seconds that the main thread was ready and had no core, as Linux counts them; 0 where the system does not say."""
    with suppress(OSError, ValueError, IndexError), open("/proc/self/schedstat", encoding="ascii") as file:
        return int(file.read().split()[1]) / 1e9
    return 0.0


def cycle(labels: Sequence[object]) -> int:
    """After how many of them the labels come again in the same order, all of them twice or more; 1 where they do not."""
    lengths = range(1, len(labels) // 2 + 1)
    return next((length for length in lengths if list(labels[length:]) == list(labels[:-length])), 1)


def harmless(method: Callable[..., None]) -> Callable[..., None]:
    """A method whose errors end the recording and never the program."""

    @wraps(method)
    def guarded(watcher: Watcher, *given: Any) -> None:
        try:
            method(watcher, *given)
        except Exception as error:
            watcher.recording, watcher.why = False, f"nothing more after {type(error).__name__}: {error}"

    return guarded


class Watcher:
    """What is recorded of a program, and when."""

    def __init__(self, folder: str, steps: int, seconds: float) -> None:
        self.folder, self.steps, self.seconds = folder, steps, seconds
        self.torch: Any = None
        self.jax: Any = None
        self.profiler: Any = None
        self.recording = False
        self.stacks = True  # whether Python's calls are recorded, which say modules and lines
        self.compiles = self.deferred = False  # whether they are not, for a compiler or until imports are done
        self.restarted = False  # whether a recording was given up for another one
        self.earlier: list[Any] = []  # such recordings, which PyTorch cannot free without damage
        self.began = 0.0
        self.recorded = self.waited = 0.0  # seconds of the recording, and those of it without a core
        self.kind = ""  # what the steps are
        self.ends: list[float] = []  # when steps ended while recording
        self.order: list[int] = []  # which optimizer made each of the first steps
        self.later: list[float] = []  # and after it
        self.awaited: list[
            float
        ] = []  # when the device was done with the first of these, and with those up to the last awaited one
        self.why = "the entire run"
        self.process = os.getpid()

    @harmless
    def imported(self, module: ModuleType) -> None:
        """The program has imported torch or JAX."""
        if module.__name__ == "torch" and self.torch is None:
            if self.jax is not None and self.recording:
                self._stop_jax()
            self.torch = module
            self._watch_torch()
            self._begin()
        elif module.__name__ == "jax" and self.torch is None and self.jax is None:
            self.jax = module
            self.why = "nothing: JAX ran nothing"
            self._watch_jax()

    def marked(self) -> None:
        self.signal(MARKED)

    @harmless
    def signal(self, kind: str, whose: int = 0) -> None:
        """A step of this kind has ended (or, marked, begins); of an optimizer, `whose` it was."""
        if self.torch is None or os.getpid() != self.process:
            return
        if self.kind == "" or RANK.index(kind) < RANK.index(self.kind):
            self.kind, self.ends, self.later, self.order, self.awaited = kind, [], [], [], []
            late = time.perf_counter() - self.began > self.seconds / 2
            resumed = self.deferred and not self.stacks and not self.compiles
            if not self.recording or resumed:  # what came before the first step is left out
                self._anew(self.stacks or resumed)
                return
            if late:
                # What came before does not count. It stays in the recording, because PyTorch can hang in writing one with
                # Python's calls that follows another one at once.
                self.began, self.waited = time.perf_counter(), waited_for_core()
                return
        if kind != self.kind:
            return
        now = time.perf_counter()
        if not self.recording:
            self.later.append(now)
            if len(self.later) in (1, 1 + AWAITED * cycle(self.order)):
                self._synchronize()
                self.awaited.append(time.perf_counter())
            return
        self.ends.append(now)
        self.order.append(whose)
        several, turn = len(set(self.order)), cycle(self.order)
        wanted = MAX_OPTIMIZERS if several > turn else turn  # optimizers in turn make a step together
        if len(self.ends) >= self.steps * wanted + (kind == MARKED):
            self._end(f"{self.steps} {kind}" if turn == 1 else f"{self.steps} steps of {several} optimizers")
        elif now - self.began > self.seconds and len(self.ends) >= MIN_STEPS:
            self._end(f"{len(self.ends)} {kind}, {self.seconds:g} s")

    @harmless
    def out_of_time(self, number: int, frame: FrameType | None) -> None:
        """No step has ended the recording; steps that take longer than the limit are waited for, up to three of them."""
        why = f"the first {time.perf_counter() - self.began:.0f} s, without steps"
        if self.recording and self.torch is None:
            self.why = why
            self._stop_jax()
        elif self.recording and not self.kind:
            self._end(why)

    def _watch_torch(self) -> None:
        with suppress(ImportError):  # an old torch has no hook for all optimizers
            from torch.optim.optimizer import register_optimizer_step_post_hook

            register_optimizer_step_post_hook(lambda optimizer, *_: self.signal(OPTIMIZER, id(optimizer)))
        with suppress(ImportError, AttributeError):
            from torch.utils.data import dataloader

            original = dataloader._BaseDataLoaderIter.__next__

            def following(batches: Any) -> Any:
                batch = original(batches)
                self.signal(BATCH)
                return batch

            dataloader._BaseDataLoaderIter.__next__ = following
        original_compile = self.torch.compile

        @wraps(original_compile)
        def compile_watched(*given: Any, **named: Any) -> Any:
            self.compiled()
            return original_compile(*given, **named)

        self.torch.compile = compile_watched

    @harmless
    def compiled(self) -> None:
        """The program compiles: recording every Python call of the compiler would take minutes, so begin anew without."""
        stacks, self.stacks, self.compiles = self.stacks, False, True
        if stacks and self.recording and not self.ends:
            self._anew(False)

    @harmless
    def importing(self) -> None:
        """A package is imported: the profiler would take half a minute over the Python calls of a large one."""
        if self.recording and self.profiler is not None and self.stacks and not self.ends and not self.deferred:
            self.deferred = True
            self._anew(False)
            self.hook = self.torch.nn.modules.module.register_module_forward_pre_hook(self.called)

    @harmless
    def called(self, *_: Any) -> None:
        """The first module is called after imports."""
        self.hook.remove()
        if self.recording and not self.ends and not self.stacks and not self.compiles:
            self._anew(True)

    def _anew(self, stacks: bool) -> None:
        self.stacks = stacks
        self._end("")
        self._begin()

    def _begin(self) -> None:
        torch = self.torch
        if torch.autograd._profiler_enabled():
            self.why = "nothing: the program runs a torch profiler of its own"
            return
        before = os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK")
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # asks the driver without initialising CUDA
        try:
            cuda = torch.cuda.is_available()
        finally:
            os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK")
            os.environ.update({} if before is None else {"PYTORCH_NVML_BASED_CUDA_CHECK": before})
        activity = torch.profiler.ProfilerActivity
        activities = [activity.CPU, *([activity.CUDA] if cuda else [])]
        if self.profiler is not None:
            self.restarted = True
            self.earlier.append(self.profiler)
        self.profiler = torch.profiler.profile(
            activities=activities, record_shapes=True, with_stack=self.stacks, with_modules=True
        )
        with warnings.catch_warnings():  # of cycles, which PyTorch 2.11 warns of where there is only one
            warnings.filterwarnings("ignore", message=".*Profiler clears events")
            self.profiler.start()
        self.recording, self.began, self.waited = True, time.perf_counter(), waited_for_core()
        if not self.kind:
            self._alarm(self.seconds if self.stacks else COMPILING * self.seconds)

    def _alarm(self, seconds: float) -> None:
        """End the recording after some time, where the program has no use for the alarm itself."""
        with suppress(ValueError, AttributeError):  # not in the main thread, or no alarms on this system
            if signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, self.out_of_time):
                signal.signal(signal.SIGALRM, self.out_of_time)
                signal.setitimer(signal.ITIMER_REAL, seconds)

    def _end(self, why: str) -> None:
        if not self.recording or self.profiler is None:
            return
        steps = sys.modules.get("ridgeline.profilers.step")
        if steps is not None:
            steps.end_open()
        self._synchronize()  # kernels still queued belong to the program
        self.recording, self.why = False, why or self.why
        self.recorded, self.waited = time.perf_counter() - self.began, waited_for_core() - self.waited
        self.profiler.stop()

    @property
    def _queues(self) -> bool:
        """Whether the program launches on a device, ahead of it; not while it captures a graph, which waiting would end."""
        cuda = self.torch.cuda
        return cuda.is_available() and cuda.is_initialized() and not cuda.is_current_stream_capturing()

    def _synchronize(self) -> None:
        if self._queues:
            self.torch.cuda.synchronize()

    def _unprofiled(self, turn: int) -> dict[str, float]:
        """Seconds of a step without the profiler, of how many steps, and those that the host launches one in where it runs ahead of the
        device; nothing where too few steps followed the recording."""
        if len(self.awaited) < 2:
            return {}
        awaited = (self.awaited[1] - self.awaited[0]) / AWAITED
        first, *gaps = [later - earlier for earlier, later in pairwise(self.later[::turn])]
        usual = sorted(gaps)[len(gaps) // 2]  # the first has the wait for the device in it
        if self._queues and usual < RAN_AHEAD * awaited:
            return {"step_seconds": awaited, "unprofiled_steps": AWAITED, "launch_seconds": usual}
        every = sorted((first, *gaps))
        known = (every[len(every) // 2], len(every)) if len(every) >= MIN_STEPS else (awaited, AWAITED)
        return {"step_seconds": known[0], "unprofiled_steps": known[1]}

    # -- JAX ------------------------------------------------------------------------------------------------------------

    def _watch_jax(self) -> None:
        """Begin when the program first uses a device: starting earlier would choose its platform before it can."""
        try:
            bridge: Any = importlib.import_module("jax._src.xla_bridge")
            original = bridge.backends
        except (ImportError, AttributeError):
            self._begin_jax()
            return

        def backends() -> Any:
            ready = original()
            if bridge.backends is backends:
                bridge.backends = original
                self._begin_jax()
            return ready

        bridge.backends = backends

    @harmless
    def _begin_jax(self) -> None:
        if self.torch is None:
            self.jax.profiler.start_trace(self.folder, **self._jax_options())
            self.recording, self.began, self.why = True, time.perf_counter(), "the entire run"
            self._alarm(COMPILING * self.seconds)

    def _jax_options(self) -> dict[str, Any]:
        """Without Python's calls: XLA keeps the lines of operations itself, and a trace ends after a million events, of which
        the calls of a program that launches operation by operation are nine in ten."""
        options = getattr(self.jax.profiler, "ProfileOptions", None)
        if options is None:  # an older JAX
            return {}
        made = options()
        made.python_tracer_level = 0
        return {"profiler_options": made}

    def _stop_jax(self) -> None:
        self.recording = False
        with suppress(RuntimeError):  # the program stopped it
            self.jax.profiler.stop_trace()

    def finish(self) -> None:
        """Write the trace and what is known of it."""
        if os.getpid() != self.process:
            return
        self._write()
        library = "torch" if self.torch is not None else "jax" if self.jax is not None else ""
        why = f"{self.why}, rank 0 of {RANKS}" if RANKS > 1 else self.why
        turn = cycle(self.order)
        facts: dict[str, Any] = {"library": library, "recorded": why, "kind": self.kind}
        facts["steps"] = len(self.ends) // turn
        facts |= self._unprofiled(turn)
        facts |= {"recorded_seconds": self.recorded, "waited_seconds": self.waited}
        with open(os.path.join(self.folder, FACTS), "w", encoding="utf-8") as file:
            json.dump(facts, file)

    @harmless
    def _write(self) -> None:
        if self.profiler is not None:
            self._end("")
            self.profiler.export_chrome_trace(os.path.join(self.folder, TRACE))
        elif self.jax is not None and self.recording:
            self._stop_jax()
