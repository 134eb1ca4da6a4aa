"""The house stays as drawn: who imports whom, what loads with the package, what the tree must not contain."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "ridgeline"

# Ground floor first: each package with what it may import. Programs, profilers and measure do not know each other's
# results: they meet in Program and Observation.
MAY_IMPORT = {
    "core": set[str](),
    "machines": {"core"},
    "profilers": {"core", "machines"},
    "programs": {"core"},
    "prediction": {"core", "machines", "programs"},
    "measure": {"core", "machines", "programs", "prediction"},
    "gaps": {"core", "machines", "programs", "prediction"},
    "render": {"core", "machines", "programs", "prediction", "measure", "gaps"},
    "app": {"core", "machines", "profilers", "programs", "prediction", "measure", "gaps", "render"},
}
MAX_FILE_LINES, MAX_FUNCTION_LINES = 350, 60
# Words that say nothing of the quantity they would stand for.
EMPTY_NAMES = {"found", "told", "whole", "lent", "LEAST", "MOST", "ALIKE"}
HEAVY = {
    "torch",
    "jax",
    "triton",
    "matplotlib",
    "plotly",
    "fastapi",
    "uvicorn",
    "pyarrow",
    "polars",
    "pandas",
    "transformers",
    "cupy",
    "scipy",
}
# The files that are about a heavy package.
OWNERS = {
    "matplotlib": ("render/draw/mpl",),
    "pyarrow": ("core/parquet_files.py",),
    "torch": ("measure/", "profilers/", "programs/torch_dispatch.py", "programs/trace/torch_"),
    "jax": ("programs/trace/jax_",),
    "cupy": ("measure/", "profilers/self_check.py"),
    "scipy": ("prediction/",),
    "fastapi": ("app/web/",),
    "uvicorn": ("app/web/listen.py",),
}
# Files that only `ridgeline serve` loads, and that are made of a heavy package.
AT_LOAD = ("app/web/routes/", "app/web/server.py", "app/web/assets.py", "app/web/listen.py")

FILES = sorted(PACKAGE.rglob("*.py"))
ROOMS: dict[str, list[Path]] = {}
for each in FILES:
    ROOMS.setdefault(each.relative_to(PACKAGE).parts[0].removesuffix(".py"), []).append(each)
DRAWERS = [path for path in FILES if path.parent.name == "draw" or path.name in ("chart.py", "table.py")]
DRAWERS = [path for path in DRAWERS if "render" in path.parts]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree(path)))


@cache
def imports(path: Path) -> list[tuple[str, bool, bool]]:
    """(module, ours, at load time) for every import of a file; type-checking blocks do not count."""
    found: list[tuple[str, bool, bool]] = []
    package = path.relative_to(PACKAGE).parts[:-1]

    def visit(node: ast.AST, loading: bool) -> None:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        if isinstance(node, ast.Import):
            found.extend((alias.name, alias.name.startswith("ridgeline"), loading) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            if node.level:
                base = package[: len(package) - node.level + 1]
                names = [node.module] if node.module else [alias.name for alias in node.names]
                found.extend((".".join([*base, name]), True, loading) for name in names)
            else:
                found.append((node.module or "", (node.module or "").startswith("ridgeline"), loading))
        for child in ast.iter_child_nodes(node):
            visit(child, loading and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    visit(tree(path), True)
    return found


def test_the_root_holds_the_packages_and_nothing_else() -> None:
    files = {path.name for path in PACKAGE.iterdir() if path.is_file()}
    assert files == {"__init__.py", "__main__.py", "py.typed"}
    # a checkout that was updated may keep folders in which nothing but __pycache__ is left
    assert {path.relative_to(PACKAGE).parts[0] for path in FILES if path.parent != PACKAGE} == set(MAY_IMPORT)


def test_no_package_imports_one_above_it() -> None:
    """The table itself has no arrow up, so there can be no cycle."""
    order = list(MAY_IMPORT)
    for package, others in MAY_IMPORT.items():
        assert all(order.index(other) < order.index(package) for other in others), package


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_what_the_table_allows(package: str) -> None:
    for path in ROOMS[package]:
        others = {module.removeprefix("ridgeline.").split(".")[0] for module, ours, _ in imports(path) if ours}
        assert others - {package, "ridgeline"} <= MAY_IMPORT[package], path


def test_render_shows_predictions_and_makes_none() -> None:
    """Builders take results; the studies that `CHARTS` and `TABLES` pair with them are the only functions they name."""
    for path in PACKAGE.joinpath("render").rglob("*.py"):
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("prediction.predict"):
                assert "predict" not in {alias.name for alias in node.names}, path.name


def test_properties_are_cached_without_a_lock() -> None:
    """The lock that `functools.cached_property` of Python 3.11 holds stopped a server whose threads computed at once."""
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and node.module == "functools" and path.name != "cached.py":
                assert "cached_property" not in {alias.name for alias in node.names}, path


def test_the_core_asks_no_clock_and_no_environment_and_prints_nothing() -> None:
    for path in ROOMS["core"]:
        outside = {module.split(".")[0] for module, ours, _ in imports(path) if not ours}
        assert not outside & {"time", "datetime", "subprocess", "socket", "click", "rich", "sys"}, path
        for node in nodes(path):
            asks = isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "expandvars")
            prints = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
            assert (asks, prints) == (False, False), f"{path}: {ast.unparse(node)}"


@pytest.mark.parametrize("room", ROOMS)
def test_files_and_functions_can_be_held_in_the_head(room: str) -> None:
    for path in ROOMS[room]:
        assert path.read_text(encoding="utf-8").count("\n") <= MAX_FILE_LINES, path
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert (node.end_lineno or 0) - node.lineno < MAX_FUNCTION_LINES, f"{path}: {node.name}"


@pytest.mark.parametrize("room", ROOMS)
def test_names_say_the_quantity(room: str) -> None:
    for path in ROOMS[room]:
        names = {node.id for node in nodes(path) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        assert not names & EMPTY_NAMES, path


@pytest.mark.parametrize("room", ROOMS)
def test_heavy_packages_load_late_and_in_their_own_file(room: str) -> None:
    for path in ROOMS[room]:
        name = str(path.relative_to(PACKAGE))
        for module, ours, loading in imports(path):
            package = module.split(".")[0]
            if not ours and package in HEAVY:
                assert not loading or name.startswith(AT_LOAD), f"{name} loads {package} with the module"
                assert name.startswith(OWNERS.get(package, ())), f"{name} is not the file about {package}"


@pytest.mark.parametrize("path", DRAWERS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_drawers_see_no_physics(path: Path) -> None:
    """A drawer sees Charts, Tables, and how quantities are written; never a machine or a prediction."""
    seen = {module for module, ours, _ in imports(path) if ours}
    allowed = (
        "render.chart",
        "render.table",
        "render.draw",
        "core.cached",
        "core.documents",
        "core.escaping",
        "core.errors",
        "core.files",
        "core.intake",
        "core.spelling",
        "core.units",
        "machines.folders",
    )
    assert all(module.startswith(allowed) for module in seen), f"{path.name} imports {seen}"


@pytest.mark.parametrize("room", ROOMS)
def test_every_module_says_what_it_knows(room: str) -> None:
    for path in ROOMS[room]:
        assert len((ast.get_docstring(tree(path)) or "").partition("\n")[0]) > 10, path


def loaded(*words: str) -> set[str]:
    code = f"import sys\n{chr(10).join(words)}\nprint(' '.join(sorted(name.split('.')[0] for name in sys.modules)))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_package_is_light() -> None:
    assert not loaded("import ridgeline") & (HEAVY | {"numpy", "rich", "click"})


def test_predicting_needs_nothing_heavy() -> None:
    assert not loaded("import ridgeline as rl", "rl.predict(rl.ops.gemm(1, 2, 3), rl.machine('h200'))") & HEAVY


def test_a_command_loads_no_chart_it_does_not_draw() -> None:
    words = ["predict", "gemm", "m=1", "n=1", "k=1", "--on", "h200-sxm"]
    code = f"import sys; from ridgeline.app.cli import main; main({words}, standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = done.stdout.splitlines()[-1].split()
    assert "ridgeline.prediction.predict" in modules
    assert not [name for name in modules if name.startswith(("ridgeline.render.charts", "ridgeline.render.draw"))]


def test_no_machine_figures_in_python() -> None:
    """A peak or a bandwidth lives in the catalog: no number of at least 1e10 stands in the code."""
    for path in FILES:
        for node in nodes(path):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, int | float)
                and not isinstance(node.value, bool)
            ):
                allowed = node.value in (1e12, 1e15, 1e18)  # prefixes
                assert allowed or abs(node.value) < 1e10, f"{path.name}:{node.lineno} holds {node.value}"
