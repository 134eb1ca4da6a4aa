"""What is recorded of a program and when, with a stand-in for torch; and programs without torch run as Python runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ridgeline.core.errors import InputError
from ridgeline.profilers import imports, launch, script, step
from ridgeline.profilers import watcher as recording
from ridgeline.profilers.watcher import BATCH, OPTIMIZER, Watcher


class Profiles:
    """A stand-in for torch, which keeps what was recorded between start and stop."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.__name__ = "torch"
        self.autograd = SimpleNamespace(_profiler_enabled=lambda: False)
        self.cuda = SimpleNamespace(is_available=lambda: False, is_initialized=lambda: False)
        activity = SimpleNamespace(CPU="cpu", CUDA="cuda")
        self.profiler = SimpleNamespace(ProfilerActivity=activity, profile=self.profile)

    def profile(self, **options: Any) -> Any:
        assert options["record_shapes"]
        return SimpleNamespace(
            start=lambda: self.log.append("start" if options["with_stack"] else "start without stacks"),
            stop=lambda: self.log.append("stop"),
            export_chrome_trace=lambda out: Path(out).write_text("{}"),
        )


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    clock = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    return clock


@pytest.fixture
def watcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: list[float]) -> Watcher:
    made = Watcher(str(tmp_path), steps=4, seconds=10.0)
    monkeypatch.setattr(Watcher, "_watch_torch", lambda self: None)
    monkeypatch.setattr(Watcher, "_alarm", lambda self, seconds: None)
    made.imported(Profiles())  # type: ignore[arg-type]
    return made


def facts(watcher: Watcher) -> dict[str, Any]:
    watcher.finish()
    document: dict[str, Any] = json.loads((Path(watcher.folder) / recording.FACTS).read_text())
    return document


def signals(watcher: Watcher, now: list[float], kinds: Sequence[str], seconds: float = 0.1) -> None:
    for kind in kinds:
        now[0] += seconds
        watcher.signal(kind)


def test_recording_ends_after_the_steps_and_later_steps_are_timed(watcher: Watcher, now: list[float]) -> None:
    signals(watcher, now, [OPTIMIZER] * 4)
    assert watcher.torch.log == ["start", "stop"]
    signals(watcher, now, [OPTIMIZER] * 6, seconds=0.25)
    told = facts(watcher)
    assert (told["recorded"], told["steps"]) == ("4 optimizer steps", 4)
    assert (told["step_seconds"], told["unprofiled_steps"]) == (pytest.approx(0.25), 5)


def queued(watcher: Watcher, now: list[float], behind: float) -> None:
    """Waiting for the device takes so long for each step that the host has launched since."""
    waited = [0]

    def synchronize() -> None:
        now[0] += behind * (len(watcher.later) - waited[0])
        waited[0] = len(watcher.later)

    capturing = {"is_current_stream_capturing": lambda: False, "synchronize": synchronize}
    watcher.torch.cuda = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, **capturing)


@pytest.mark.parametrize("more", [0, 6])
def test_two_steps_after_the_recording_say_how_long_one_takes(watcher: Watcher, now: list[float], more: int) -> None:
    """The host launches a step in 0.1 s, the device takes 0.25 s for it."""
    signals(watcher, now, [OPTIMIZER] * 4)
    queued(watcher, now, behind=0.15)
    signals(watcher, now, [OPTIMIZER] * 2)
    assert "step_seconds" not in facts(watcher)  # one, and the end of the recording
    signals(watcher, now, [OPTIMIZER] * (1 + more))
    listed = facts(watcher)
    assert (listed["step_seconds"], listed["unprofiled_steps"]) == (pytest.approx(0.25), 2)


def test_a_graph_that_is_captured_is_not_waited_for(watcher: Watcher) -> None:
    waited: list[str] = []
    state = {"is_current_stream_capturing": lambda: True, "synchronize": lambda: waited.append("")}
    watcher.torch.cuda = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, **state)
    for _ in range(8):
        watcher.signal(OPTIMIZER)
    assert not waited
    assert watcher.torch.log == ["start", "stop"]


def test_optimizers_that_step_in_turn_make_a_step_together(watcher: Watcher, now: list[float]) -> None:
    """A critic three times, then a generator; 0.1 s each."""
    for _ in range(8):
        for whose in (1, 1, 1, 2):
            now[0] += 0.1
            watcher.signal(OPTIMIZER, whose)
    listed = facts(watcher)
    assert (listed["recorded"], listed["steps"]) == ("4 steps of 2 optimizers", 4)
    assert (listed["step_seconds"], listed["unprofiled_steps"]) == (pytest.approx(0.4), 3)


@pytest.mark.parametrize(
    ("labels", "length"),
    [([], 1), ([1], 1), ([1, 1, 1], 1), ([1, 2, 1], 1), ([1, 2, 1, 2], 2), ([1, 1, 2] * 2, 3), ([1, 2, 2, 1], 1), ([3, 1, 1, 1], 1)],
)  # fmt: skip
def test_a_cycle_is_seen_when_it_came_twice(labels: list[int], length: int) -> None:
    assert recording.cycle(labels) == length


def test_optimizers_in_no_order_end_the_recording_all_the_same(watcher: Watcher, now: list[float]) -> None:
    for whose in range(40):  # a new optimizer for every step
        now[0] += 0.1
        watcher.signal(OPTIMIZER, whose)
    assert facts(watcher)["steps"] == 16


def test_the_time_without_a_core_is_that_of_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: list[float]
) -> None:
    """Three of the four tenths of a second that were recorded; what came before does not count."""
    waited = iter((50.0, 50.3))
    monkeypatch.setattr(recording, "waited_for_core", lambda: next(waited))
    monkeypatch.setattr(Watcher, "_watch_torch", lambda self: None)
    monkeypatch.setattr(Watcher, "_alarm", lambda self, seconds: None)
    made = Watcher(str(tmp_path), steps=4, seconds=10.0)
    made.imported(Profiles())  # type: ignore[arg-type]
    signals(made, now, [OPTIMIZER] * 4)
    listed = facts(made)
    assert (listed["recorded_seconds"], listed["waited_seconds"]) == (pytest.approx(0.4), pytest.approx(0.3))


def test_a_late_first_step_does_not_begin_the_recording_anew(watcher: Watcher, now: list[float]) -> None:
    """Six of the ten seconds pass before it; the steps are counted, and timed, from there."""
    now[0] += 6.0
    signals(watcher, now, [OPTIMIZER] * 5)
    assert watcher.torch.log == ["start", "stop"]
    assert not watcher.restarted
    listed = facts(watcher)
    assert (listed["recorded"], listed["recorded_seconds"]) == ("4 optimizer steps", pytest.approx(0.4))


def test_optimizer_steps_count_and_not_the_batches_between_them(watcher: Watcher, now: list[float]) -> None:
    signals(watcher, now, [BATCH, BATCH, OPTIMIZER] * 3)
    assert watcher.recording
    signals(watcher, now, [BATCH, BATCH, OPTIMIZER])
    assert not watcher.recording
    assert facts(watcher)["recorded"] == "4 optimizer steps"


def test_marked_steps_come_first_and_the_last_one_is_complete(watcher: Watcher, now: list[float]) -> None:
    for _ in range(4):
        now[0] += 0.1
        watcher.marked()
        signals(watcher, now, [OPTIMIZER])
    assert watcher.recording  # the fourth step has begun and not ended
    watcher.marked()
    assert facts(watcher)["recorded"] == "4 ridgeline.step()"


def test_compilers_are_recorded_without_their_python_calls(watcher: Watcher, now: list[float]) -> None:
    assert not watcher.restarted
    watcher.compiled()
    watcher.compiled()
    assert watcher.torch.log == ["start", "stop", "start without stacks"]
    assert watcher.restarted
    signals(watcher, now, [OPTIMIZER] * 4)
    assert facts(watcher)["recorded"] == "4 optimizer steps"


def test_python_calls_of_imports_are_not_recorded(watcher: Watcher, now: list[float]) -> None:
    """From a further import to the first call of a module, or the first step; a compiler forbids them for good."""
    hooks: list[Any] = []
    handle = SimpleNamespace(remove=lambda: hooks.clear())
    registers = SimpleNamespace(register_module_forward_pre_hook=lambda hook: (hooks.append(hook), handle)[1])
    watcher.torch.nn = SimpleNamespace(modules=SimpleNamespace(module=registers))
    watcher.importing()
    watcher.importing()
    assert watcher.torch.log == ["start", "stop", "start without stacks"]
    assert hooks[0](None, ()) is None  # anything else would replace the arguments of the module
    assert not hooks
    watcher.importing()  # an import inside a module is small
    assert watcher.torch.log == ["start", "stop", "start without stacks", "stop", "start"]
    signals(watcher, now, [OPTIMIZER] * 4)
    assert facts(watcher)["recorded"] == "4 optimizer steps"
    assert watcher.torch.log[-1] == "stop"


@pytest.mark.parametrize(("compiles", "began"), [(False, "start"), (True, "start without stacks")])
def test_after_imports_the_first_step_brings_python_calls_back(
    watcher: Watcher, now: list[float], compiles: bool, began: str
) -> None:
    module = SimpleNamespace(register_module_forward_pre_hook=lambda hook: None)
    watcher.torch.nn = SimpleNamespace(modules=SimpleNamespace(module=module))
    watcher.importing()
    if compiles:
        watcher.compiled()
    signals(watcher, now, [OPTIMIZER])
    assert watcher.torch.log[-1] == began
    signals(watcher, now, [OPTIMIZER] * 4)
    assert facts(watcher)["steps"] == 4


LEAVING = """
import atexit, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from ridgeline.profilers.leaving import leave

class Broken:
    def __del__(self):
        print("freed")

kept = Broken()
atexit.register(print, "at exit")
threading.Thread(target=lambda: (time.sleep(0.05), print("thread"))).start()
pool = ThreadPoolExecutor(1)
pool.submit(int).result()
sys.stdout.write("no newline ")
leave(3)
"""


def test_a_process_is_left_as_python_does_without_freeing_its_memory() -> None:
    done = subprocess.run([sys.executable, "-c", LEAVING], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "no newline thread\nat exit\n", "")


def test_what_comes_long_before_the_first_step_is_left_out(watcher: Watcher, now: list[float]) -> None:
    now[0] += 60.0
    watcher.out_of_time(0, None)
    assert watcher.torch.log == ["start", "stop"]
    signals(watcher, now, [OPTIMIZER])
    assert watcher.torch.log == ["start", "stop", "start"]
    signals(watcher, now, [OPTIMIZER] * 4)
    assert facts(watcher)["recorded"] == "4 optimizer steps"


def test_a_program_without_steps_is_recorded_for_some_seconds(watcher: Watcher, now: list[float]) -> None:
    now[0] += 10.0
    watcher.out_of_time(0, None)
    told = facts(watcher)
    assert (told["recorded"], told["kind"]) == ("the first 10 s, without steps", "")
    assert (Path(watcher.folder) / recording.TRACE).is_file()


def test_long_steps_end_by_time_after_three(watcher: Watcher, now: list[float]) -> None:
    watcher.steps = 100
    signals(watcher, now, [OPTIMIZER] * 3, seconds=4.0)
    assert facts(watcher)["recorded"] == "3 optimizer steps, 10 s"


def test_a_short_program_is_recorded_entirely(watcher: Watcher, now: list[float]) -> None:
    signals(watcher, now, [OPTIMIZER] * 2)
    assert facts(watcher)["recorded"] == "the entire run"
    assert watcher.torch.log == ["start", "stop"]


def test_a_program_that_profiles_itself_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watcher, "_watch_torch", lambda self: None)
    made, torch = Watcher(str(tmp_path), 4, 10.0), Profiles()
    torch.autograd = SimpleNamespace(_profiler_enabled=lambda: True)
    made.imported(torch)  # type: ignore[arg-type]
    assert facts(made)["recorded"] == "nothing: the program runs a torch profiler of its own"


def test_jax_is_traced_where_there_is_no_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watcher, "_watch_torch", lambda self: None)
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", None)  # an installed JAX is not the stand-in's
    log: list[str] = []
    jax = SimpleNamespace(__name__="jax", profiler=SimpleNamespace(start_trace=log.append, stop_trace=lambda: log.append("stop")))  # fmt: skip
    made = Watcher(str(tmp_path), 4, 10.0)
    made.imported(jax)  # type: ignore[arg-type]
    assert facts(made)["library"] == "jax"
    assert log == [str(tmp_path), "stop"]
    both = Watcher(str(tmp_path), 4, 10.0)
    both.imported(jax)  # type: ignore[arg-type]
    both.imported(Profiles())  # type: ignore[arg-type]
    assert log[2:] == [str(tmp_path), "stop"]  # one profiler at a time
    assert facts(both)["library"] == "torch"


def test_jax_chooses_its_platform_before_it_is_traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    bridge = ModuleType("jax._src.xla_bridge")
    bridge.backends = lambda: log.append("backends") or "cpu"  # type: ignore[attr-defined, func-returns-value]
    for name, module in (
        ("jax", ModuleType("jax")),
        ("jax._src", ModuleType("jax._src")),
        ("jax._src.xla_bridge", bridge),
    ):
        monkeypatch.setitem(sys.modules, name, module)

    def start(folder: str) -> None:
        bridge.backends()  # as the profiler of JAX does
        log.append("trace")

    profiler = SimpleNamespace(start_trace=start, stop_trace=lambda: log.append("stop"))
    made = Watcher(str(tmp_path), 4, 10.0)
    made.imported(SimpleNamespace(__name__="jax", profiler=profiler))  # type: ignore[arg-type]
    assert (log, made.recording) == ([], False)
    assert [bridge.backends(), bridge.backends()] == ["cpu", "cpu"]
    assert log == ["backends", "backends", "trace", "backends"]
    assert facts(made)["recorded"] == "the entire run"
    unused = Watcher(str(tmp_path), 4, 10.0)
    unused.imported(SimpleNamespace(__name__="jax", profiler=profiler))  # type: ignore[arg-type]
    assert facts(unused)["recorded"] == "nothing: JAX ran nothing"


def test_jax_is_recorded_without_calls_of_python_and_for_some_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", None)
    log: list[object] = []
    profiler = SimpleNamespace(
        ProfileOptions=SimpleNamespace,
        start_trace=lambda folder, profiler_options: log.append(vars(profiler_options)),
        stop_trace=lambda: log.append("stop"),
    )
    made = Watcher(str(tmp_path), 4, 10.0)
    monkeypatch.setattr(made, "_alarm", log.append)
    made.imported(SimpleNamespace(__name__="jax", profiler=profiler))  # type: ignore[arg-type]
    made.out_of_time(0, None)
    assert log == [{"python_tracer_level": 0}, 120.0, "stop"]
    assert facts(made)["recorded"].startswith("the first")
    assert len(log) == 3  # stopped once


def test_an_error_of_the_profiler_is_not_the_programs(watcher: Watcher, now: list[float]) -> None:
    def full(out: str) -> None:
        raise OSError("the disk is full")

    watcher.profiler.export_chrome_trace = full
    signals(watcher, now, [OPTIMIZER] * 2)
    assert facts(watcher)["recorded"] == "nothing more after OSError: the disk is full"


def test_an_import_is_noticed_once_and_stays_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "heavy_library.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    noticed: list[ModuleType] = []
    others: list[str] = []
    finder = imports.Finder(noticed.append, lambda: others.append("import"), ["heavy_library", "no_such_library"])
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    import heavy_library  # type: ignore[import-not-found]

    assert heavy_library.value == 7
    assert noticed == [heavy_library]
    others.clear()
    (tmp_path / "second_library.py").write_text("import this_is_missing\n")
    with pytest.raises(ModuleNotFoundError):
        import second_library  # type: ignore[import-not-found]  # noqa: F401
    assert others == ["import", "import"]  # it, and what it asked for
    with pytest.raises(ModuleNotFoundError):
        import no_such_library  # type: ignore[import-not-found]  # noqa: F401


# -- marks ----------------------------------------------------------------------------------------------------------


def test_marks_are_ranges_only_while_a_profiler_records(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    class Range:
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> None:
            log.append(f"begin {self.name.partition('#')[0]}")

        def __exit__(self, *_: object) -> None:
            log.append("end")

    recording = [False]
    profiler = SimpleNamespace(record_function=Range)
    torch = SimpleNamespace(autograd=SimpleNamespace(_profiler_enabled=lambda: recording[0]), profiler=profiler)
    monkeypatch.setitem(sys.modules, "torch", torch)
    with step.step() as first:
        pass
    assert log == []
    recording[0] = True
    with step.step() as second:
        assert log == ["begin ridgeline.step"]
    assert (log, second.number) == (["begin ridgeline.step", "end"], first.number + 1)
    step.step()
    step.step()
    step.end_open()
    assert log[2:] == ["begin ridgeline.step", "end"] * 2


def test_marks_tell_who_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setitem(sys.modules, step.WATCHER, SimpleNamespace(marked=lambda: calls.append(1)))  # type: ignore[arg-type]
    step.step().end()
    assert calls == [1]
    assert step.WATCHER == script.WATCHER


# -- programs ---------------------------------------------------------------------------------------------------------


def started(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A program under the runner, by an interpreter that finds nothing of ridgeline."""
    settings = '{"steps": 4, "seconds": 5, "safe_path": true}'
    command = [sys.executable, str(launch.RUNNER), str(folder), settings, *words]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"PYTHONSAFEPATH": "1"}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=environment, timeout=120
    )


PROGRAM = """
import os, pickle, sys
import neighbour
class Thing: pass
print(sys.argv, __name__, os.path.basename(__file__), neighbour.value, sys.modules["__main__"].Thing is Thing)
assert os.path.basename(sys.path[0]) == "inner" and not any(place.endswith("profilers") for place in sys.path)
assert "PYTHONSAFEPATH" not in os.environ
assert type(pickle.loads(pickle.dumps(Thing()))) is Thing
end = sys.argv[1]
if end == "raise": raise ValueError("mine")
if end == "interrupt": raise KeyboardInterrupt
sys.exit({"none": None, "text": "a text"}.get(end) if not end.isdigit() else int(end))
"""


@pytest.mark.parametrize(
    ("end", "code", "error"),
    [("0", 0, ""), ("3", 3, ""), ("none", 0, ""), ("text", 1, "a text\n"), ("raise", 1, "ValueError: mine\n"), ("interrupt", 130, "")],
)  # fmt: skip
def test_a_program_runs_as_python_runs_it(tmp_path: Path, end: str, code: int, error: str) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "program.py").write_text(PROGRAM)
    (tmp_path / "inner" / "neighbour.py").write_text("value = 'found'\n")
    ended = started(tmp_path, "inner/program.py", end, "--lr", "3")
    assert ended.stdout == f"['inner/program.py', '{end}', '--lr', '3'] __main__ program.py found True\n"
    assert (ended.returncode, ended.stderr.endswith(error)) == (code, True)
    assert "script.py" not in ended.stderr  # the traceback is the program's own
    assert json.loads((tmp_path / recording.FACTS).read_text())["library"] == ""


def test_an_interpreter_without_safe_paths_finds_nothing_of_ridgeline(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys; print([place for place in sys.path if 'profilers' in place])")
    command = [sys.executable, "-E", str(launch.RUNNER), str(tmp_path), '{"steps": 4, "seconds": 5}', str(tmp_path / "program.py")]  # fmt: skip
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "[]\n")


def test_a_module_runs_too(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "train.py").write_text("import sys; print(__name__, sys.argv[1:])")
    ended = started(tmp_path, "-m", "package.train", "7")
    assert (ended.returncode, ended.stdout) == (0, "__main__ ['7']\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no program"),
        (("bash", "train.sh"), "is run neither by Python nor by torchrun"),
        (("train.py",), "as in -- python train.py"),
        (("python", "none.py"), "there is no script 'none.py'"),
        (("python", "-c", "print(1)"), "names no script"),
        (("python",), "names no script"),
        (("python", "-m"), "names no script"),
        (("python-that-nobody-has", "x.py"), "there is no 'python-that-nobody-has'"),
    ],
)
def test_what_is_no_python_program_is_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        launch.split(words)


def test_options_of_python_stay_options(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("")
    words = (sys.executable, "-u", "-X", "dev", "-W", "ignore", str(path), "-m", "3")
    assert launch.split(words) == (["-u", "-X", "dev", "-W", "ignore"], [str(path), "-m", "3"])
    assert launch.split((sys.executable, "-u", "-m", "a.b", "c")) == (["-u"], ["-m", "a.b", "c"])


@pytest.mark.parametrize(("body", "code"), [("print('seen')", 0), ("import os; os._exit(9)", 9), ("raise SystemExit(4)", 4)])  # fmt: skip
def test_a_program_that_leaves_nothing_says_so_with_its_exit_code(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], body: str, code: int
) -> None:
    (tmp_path / "plain.py").write_text(body)
    with pytest.raises(launch.NothingRecorded, match=r"neither torch nor jax|before its profile") as caught:
        launch.run_program((sys.executable, str(tmp_path / "plain.py")), tmp_path, 4, 5.0)
    assert caught.value.exit_code == code
    assert ("seen" in capfd.readouterr().out) == ("seen" in body)


@pytest.mark.parametrize(("steps", "seconds"), [(0, 1.0), (10**6, 1.0), (4, 0.0), (4, float("nan"))])
def test_amounts_that_cannot_be_are_refused(tmp_path: Path, steps: int, seconds: float) -> None:
    with pytest.raises(InputError, match="to record"):
        launch.run_program((sys.executable, "x.py"), tmp_path, steps, seconds)


def test_an_interrupt_waits_for_the_program_which_gets_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C goes to both; the trace is there once the program has ended."""
    waits = iter([KeyboardInterrupt, KeyboardInterrupt, -2])

    def wait() -> int:
        answer = next(waits)
        if isinstance(answer, int):
            return answer
        raise answer

    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: SimpleNamespace(wait=wait))
    assert launch._wait(["python"], {}, None) == 130
