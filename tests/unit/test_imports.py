"""What importing may not do, and what the packages may not reach for."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("cloudsim", "broker", "workers")

# Runs with an empty environment; importing may not open a socket or start a process, nor print.
IMPORT_QUIETLY = """
import importlib, sys

def hook(event, arguments):
    if event in {"socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen", "os.fork"}:
        raise RuntimeError(f"importing did {event} {arguments}")

# Compiled libraries look for their own parts when they load; what they do is not ours.
for name in ("numpy", "numba", "pandas", "celery", "psutil", "redis", "uvicorn", "fastapi"):
    importlib.import_module(name)
sys.addaudithook(hook)
for name in sys.argv[1:]:
    importlib.import_module(name)
"""

LOAD_COMMANDS = """
import sys
from broker.cli.app import COMMANDS, load_command

for entry in COMMANDS:
    if entry.name in sys.argv[1:]:
        load_command(entry)
print(*sys.modules)
"""

# Everything else that numpy.random offers draws from one hidden stream.
GENERATORS = {"BitGenerator", "Generator", "PCG64", "PCG64DXSM", "Philox", "SeedSequence", "default_rng"}
ENVIRONMENT = {
    "environ",
    "environb",
    "getenv",
    "getenvb",
    "getpid",
    "putenv",
    "urandom",
    "system",
    "getrandom",
}
CLOCK = {"now", "today", "utcnow"}


def modules(package: str) -> list[str]:
    """The dotted names of every module of a package."""
    paths = sorted((ROOT / package).rglob("*.py"))
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths)
    return [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=ROOT,
        env={},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_importing_prints_nothing_and_connects_to_nothing() -> None:
    done = run("-c", IMPORT_QUIETLY, *(name for package in PACKAGES for name in modules(package)))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_web_process_starts_without_heavy_libraries() -> None:
    heavy = ("numba", "pandas", "matplotlib", "pyarrow", "scipy")
    done = run("-c", f"import sys, broker.api.app; print([name for name in {heavy} if name in sys.modules])")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[]", "")


def test_the_client_and_the_commands_that_call_the_api_load_only_what_they_use() -> None:
    heavy = [
        "asyncio",
        "celery",
        "click",
        "cryptography",
        "fastapi",
        "numpy",
        "opentelemetry",
        "pygments",
        "redis",
    ]
    done = run("-c", "import sys, broker.client; print(*sys.modules)")
    assert (done.returncode, done.stderr) == (0, "")
    assert {*heavy, "rich", "typer"} & set(done.stdout.split()) == set()
    done = run(
        "-c", LOAD_COMMANDS, "clouds", "quote", "submit", "leases", "extend", "events", "job", "member", "key"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert {*heavy} & set(done.stdout.split()) == set()


def imported_names(tree: ast.Module) -> dict[str, str]:
    """What each name that a module imports stands for, as a dotted path."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def dotted(node: ast.expr, names: dict[str, str]) -> str | None:
    """`np.random.rand` as `numpy.random.rand`; None for what hangs on no imported name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return None
    return ".".join([names[node.id], *reversed(parts)])


def is_forbidden(path: str) -> bool:
    """Whether a dotted path reads the environment, a clock, or a global random stream."""
    first, *rest = path.split(".")
    match first:
        case "os":
            return any(part in ENVIRONMENT for part in rest)
        case "time" | "random" | "secrets" | "uuid" | "getpass" | "locale":
            return True
        case "datetime":
            return bool(rest) and rest[-1] in CLOCK
        case "pandas":
            return rest[-1:] in (["now"], ["today"])
        case "numpy":
            return rest[:1] == ["random"] and len(rest) > 1 and rest[1] not in GENERATORS
        case _:
            return False


def forbidden_uses(source: str) -> Iterator[str]:
    """Each forbidden thing a module touches, with its line."""
    tree = ast.parse(source)
    names = imported_names(tree)
    for name, path in names.items():
        if is_forbidden(path):
            yield f"import of {path} as {name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            used = dotted(node, names)
            if used is not None and is_forbidden(used):
                yield f"line {node.lineno}: {used}"
        elif isinstance(node, ast.Call):
            seedless = not node.args and not node.keywords
            if seedless and dotted(node.func, names) == "numpy.random.default_rng":
                yield f"line {node.lineno}: a generator without a seed"
            if isinstance(node.func, ast.Name) and node.func.id in {"input", "exec", "eval"}:
                yield f"line {node.lineno}: {node.func.id}()"


def test_cloudsim_reads_no_environment_clock_or_hidden_random_state() -> None:
    found = {
        str(path.relative_to(ROOT)): uses
        for path in sorted((ROOT / "cloudsim").rglob("*.py"))
        if (uses := sorted(set(forbidden_uses(path.read_text(encoding="utf-8")))))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("source", "clean"),
    [
        ("import os\nos.environ['A']", False),
        ("from os import getenv", False),
        ("import time", False),
        ("from time import monotonic as now", False),
        ("import datetime as dt\ndt.datetime.now()", False),
        ("from datetime import datetime\ndatetime.fromisoformat('2014-01-01')", True),
        ("import pandas as pd\npd.Timestamp.now()", False),
        ("import numpy as np\nnp.random.rand(3)", False),
        ("from numpy.random import seed", False),
        ("import numpy as np\nnp.random.default_rng()", False),
        ("import numpy as np\ndef f(rng: np.random.Generator): return np.random.default_rng(3)", True),
        ("import random\nrandom.Random(3)", False),
        ("import os\nos.fspath('a')", True),
        ("def f(now): return now.time", True),
    ],
)
def test_the_check_finds_what_it_is_for(source: str, clean: bool) -> None:
    assert (list(forbidden_uses(source)) == []) is clean
