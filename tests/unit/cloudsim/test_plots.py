"""Pictures: they are there, they hold what they were given, and labels do not lie on each other."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from cloudsim.plots import CloudUse, save, table_figure, use_figure

SLAS = (0.01, 0.05, 0.1, 0.25)


def rows(sizes: list[int], node: int = 32, nodes: int = 31) -> list[dict[str, Any]]:
    """Rows as of QuantileTable.rows: lifetimes that grow with the room, none at all where there is least."""
    made = []
    for cores in sizes:
        most = node // cores * nodes
        edges = sorted({1, 2, 3, most // 3 + 1, most // 2 + 1, most + 1})
        for low, high in pairwise(edges):
            lives = {sla: 0.0 if low == 1 and sla < 0.1 else 600.0 * low * (1 + 20 * sla) for sla in SLAS}
            made.append(
                {
                    "cores": cores,
                    "free_slots_from": low,
                    "free_slots_to": high - 1,
                    "samples": 30 * low,
                    "evictions": 5,
                    "followed_up_s": 86400.0 * 30,
                    "quantiles_s": lives,
                }
            )
    return made


def use(name: str, evictions: int) -> CloudUse:
    times = np.arange(0.0, 3 * 86400, 3600)
    own = 8 + 4 * np.sin(times / 9000)
    return CloudUse(name, 32, times, own, 20 - own, np.linspace(1e5, 2e5, evictions))


def overlapping_labels(figure: Any) -> list[tuple[str, str]]:
    """Pairs of visible texts whose boxes meet."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts: list[Any] = [*figure.texts]
    for axes in figure.axes:
        texts += [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label]
        (left, right), (low, high) = sorted(axes.get_xlim()), sorted(axes.get_ylim())
        for axis, at, to in ((axes.xaxis, left, right), (axes.yaxis, low, high)):
            for place, tick in zip(axis.get_majorticklocs(), axis.get_major_ticks(), strict=False):
                if at <= place <= to and tick.label1.get_visible():
                    texts.append(tick.label1)
    for legend in figure.legends:
        texts += legend.get_texts()
    shown = [text for text in texts if text.get_visible() and text.get_text()]
    boxes = [(text.get_text(), text.get_window_extent(renderer).shrunk(0.98, 0.9)) for text in shown]
    return [
        (one, other)
        for number, (one, box) in enumerate(boxes)
        for other, beside in boxes[number + 1 :]
        if box.overlaps(beside)
    ]


@pytest.mark.parametrize("sizes", [[1], [1, 2], [4], [1, 2, 3, 4, 6, 8, 12, 16, 24, 30]])
def test_table_labels_do_not_lie_on_each_other(sizes: list[int]) -> None:
    figure = table_figure(rows(sizes), SLAS, title="trace on 31x32")
    assert len(figure.axes) == 2 * len(sizes)
    assert overlapping_labels(figure) == []


def test_a_small_cloud_has_a_linear_axis() -> None:
    figure = table_figure(rows([2], node=4, nodes=8), SLAS, title="small")
    assert figure.axes[0].get_xscale() == "linear"
    assert overlapping_labels(figure) == []


def test_many_levels_and_an_empty_table_are_drawn_too(tmp_path: Path) -> None:
    made = rows([1])
    for row in made:
        row["quantiles_s"] = dict.fromkeys((0.001, *SLAS, 0.5, 0.9, 0.99), 100.0)
    save(table_figure(made, tuple(made[0]["quantiles_s"]), title="many"), tmp_path / "many.png")
    save(table_figure([], SLAS, title="nothing"), tmp_path / "nothing.png")


@pytest.mark.parametrize("clouds", [1, 3, 4])
def test_use_labels_do_not_lie_on_each_other(clouds: int) -> None:
    figure = use_figure([use(f"cloud {n}", 3 * n) for n in range(clouds)], title="demo", until_s=3 * 86400)
    assert overlapping_labels(figure) == []
    heights = [axes.get_position().height for axes in figure.axes]
    assert min(heights) > 0.6 / clouds * 0.8


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_same_figure_is_the_same_file(tmp_path: Path, ending: str) -> None:
    files = [tmp_path / f"one.{ending}", tmp_path / f"two.{ending}"]
    for file in files:
        save(use_figure([use("cloud", 2)], title="demo", until_s=86400), file)
    one, two = (file.read_bytes() for file in files)
    assert one == two
    assert len(one) > 5_000
