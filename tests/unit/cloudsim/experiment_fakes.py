"""Cases for tests of the runner; a module of its own, so that other processes can import it."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cloudsim.experiments.experiment import Case, Experiment, Picture, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def square(_data: Path | None, *, number: int, log: str | None = None) -> list[Row]:
    """Its square. ``log``: a file that gets a line whenever this really runs."""
    if log is not None:
        with Path(log).open("a") as stream:
            stream.write(f"{number}\n")
    return [{"number": number, "square": number * number, "seed": number, "parts": {"half": number / 2}}]


def fail(_data: Path | None) -> list[Row]:
    raise ValueError("this one cannot be done")


def not_a_number(_data: Path | None) -> list[Row]:
    return [{"number": float("nan")}]


def die(_data: Path | None) -> list[Row]:
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def interrupt(_data: Path | None, *, parent: int) -> list[Row]:
    """What Ctrl-C does to the process that waits for the cases, while this one goes on for ever."""
    os.kill(parent, signal.SIGINT)
    while True:
        signal.pause()


def threads(_data: Path | None) -> list[Row]:
    return [{"threads": os.environ["OMP_NUM_THREADS"]}]


def read(data: Path, *, name: str) -> list[Row]:
    return [{"text": (data / name).read_text()}]


def draw(rows: Sequence[Row]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([row["number"] for row in rows], [row["square"] for row in rows])
    return figure


def squares(log: Path | None = None, numbers: Sequence[int] = (3, 1, 2)) -> list[Case]:
    told = None if log is None else str(log)
    return [Case(f"square {n}", square, {"number": n, "log": told}) for n in numbers]


def experiment(cases: Sequence[Case], name: str = "tiny", *, pictures: bool = False) -> Experiment:
    return Experiment(
        name, "Squares <small>", "ours & theirs", lambda _quick: cases,
        (Picture("plot", "A plot of 2 < 3.", draw),) if pictures else (),
        lambda rows: [f"{len(rows)} rows, the largest is {max(row.get('square', 0) for row in rows)}"],
    )  # fmt: skip
