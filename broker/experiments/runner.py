"""The runner: runs one experiment and writes its result. An interrupted run goes on where it was.

    OUT/NAME/cases/<digest>.json    each finished case, written at once; never used when anything it depends
                                    on has changed (see ``manifest.case_digest``)
    OUT/NAME/rows.csv, rows.parquet the rows (the latter with the extra "parquet")
    OUT/NAME/<picture>.png, .svg    with the extra "plots"
    OUT/NAME/manifest.json, result.json

JSON schema ``spotfed.experiment/1`` (``result.json``): name, title, source, findings [sentence],
papers [published numbers beside ours, see ``cloudsim.experiments.promise.published_numbers.beside``],
rows [{column: value}], pictures [{name, caption}], failed {case: error}, skipped {case: [missing file]},
manifest; and ``Experiment.own_keys``.
"""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from broker.experiments.manifest import case_digest, manifest, missing
from broker.experiments.pool import FailedRun, FinishedRun, run_cases
from cloudsim.experiments.experiment import Case, Experiment, Row
from cloudsim.experiments.promise.published_numbers import beside
from cloudsim.experiments.stand_ins import write_stand_ins

SCHEMA = "spotfed.experiment/1"

#: First finding of a quick run without the recorded data.
WITHOUT_DATA = (
    "The recorded data are not there. Synthesised loads stood in for them: this run shows that the "
    "experiment works, and its numbers say nothing of the recorded data."
)

#: Called with the number of finished cases.
Progress = Callable[[int], None]


def run(
    experiment: Experiment,
    out: Path,
    *,
    data: Path | None,
    quick: bool,
    processes: int,
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Run the cases that are not done yet, write all files and return the content of ``result.json``.

    data: directory of the recorded traces. Where one that a quick run needs is not there, synthesised ones
    stand in for all, and the first finding says so. The result names the cases whose files are not there, and
    those that fail. Findings, pictures and an experiment's own keys need all rows: they are left out when
    cases are missing.
    """
    began = time.perf_counter()
    folder = out / experiment.name
    cases = list(experiment.cases(quick))
    stand_ins: list[str] = []
    if quick and any(missing(case, data) for case in cases):
        data = folder / "stand-ins"
        stand_ins = write_stand_ins(data, (name for case in cases for name in case.needs))
    skipped = {case.name: names for case in cases if (names := missing(case, data))}
    possible = [case for case in cases if case.name not in skipped]
    done, failed, kept = _run(possible, folder / "cases", data, processes, progress)
    rows = [row for case in possible if case.name in done for row in done[case.name].rows]
    findings: list[str] = []
    pictures: list[dict[str, str]] = []
    own: dict[str, Any] = {}
    if rows and not failed and not skipped:
        try:
            findings, own = experiment.findings(rows), experiment.own_keys(rows)
            findings = [WITHOUT_DATA, *findings] if stand_ins else findings
            pictures = _draw(experiment, rows, folder)
        except Exception as error:  # noqa: BLE001  (the rows are worth keeping, and the next experiment too)
            failed["findings and pictures"] = f"{type(error).__name__}: {error}"
    result = {
        "schema": SCHEMA,
        "name": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "findings": findings,
        "papers": [] if quick else beside(experiment.name, rows),
        "rows": rows,
        "pictures": pictures,
        "failed": failed,
        "skipped": skipped,
        "manifest": {
            **manifest(experiment.name, quick=quick, cases=cases, rows=rows, data=data),
            "stand_ins": stand_ins,
            "cases": len(cases),
            "cases_kept_from_before": kept,
            "case_seconds": round(sum(finished.seconds for finished in done.values()), 1),
            "wall_seconds": round(time.perf_counter() - began, 1),
        },
    }
    assert not result.keys() & own.keys(), "an experiment's own keys hide no others"
    result |= own
    _write_rows(rows, folder)
    write_json(folder / "manifest.json", result["manifest"])
    write_json(folder / "result.json", result)
    return result


def _run(
    cases: Sequence[Case], store: Path, data: Path | None, processes: int, progress: Progress
) -> tuple[dict[str, FinishedRun], dict[str, str], int]:
    """Return rows by case, errors by case, and the number of cases done before."""
    store.mkdir(parents=True, exist_ok=True)
    paths = {case.name: store / f"{case_digest(case, data)}.json" for case in cases}
    assert len(paths) == len(cases), "cases of an experiment have names of their own"
    done = {name: stored for name, path in paths.items() if (stored := _stored(path)) is not None}
    kept, failed = len(done), dict[str, str]()
    progress(kept)
    with closing(run_cases([case for case in cases if case.name not in done], data, processes)) as answers:
        for case, answer in answers:
            match answer:
                case FailedRun(error):
                    failed[case.name] = error
                case FinishedRun(rows, seconds):
                    try:
                        write_json(paths[case.name], {"case": case.name, "seconds": seconds, "rows": rows})
                    except (TypeError, ValueError) as error:  # no JSON, or a number that JSON does not have
                        failed[case.name] = f"its rows are not fit for JSON: {error}"
                    else:
                        done[case.name] = answer
            progress(len(done) + len(failed))
    return done, failed, kept


def _stored(path: Path) -> FinishedRun | None:
    try:
        stored = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return FinishedRun(stored["rows"], stored["seconds"])


def _draw(experiment: Experiment, rows: Sequence[Row], folder: Path) -> list[dict[str, str]]:
    if not experiment.pictures or find_spec("matplotlib") is None:
        return []
    from cloudsim.plots import save

    for picture in experiment.pictures:
        figure = picture.draw(rows)
        for ending in (".png", ".svg"):
            save(figure, folder / f"{picture.name}{ending}")
    return [{"name": picture.name, "caption": picture.caption} for picture in experiment.pictures]


def columns(rows: Sequence[Row]) -> list[str]:
    """Return the columns of all rows in order of appearance."""
    return list(dict.fromkeys(column for row in rows for column in row))


def _write_rows(rows: Sequence[Row], folder: Path) -> None:
    names, flat = write_csv(folder / "rows.csv", rows)
    if find_spec("pyarrow") is not None:
        import pandas as pd

        pd.DataFrame(flat, columns=names).to_parquet(folder / "rows.parquet", index=False)


def write_csv(path: Path, rows: Sequence[Row]) -> tuple[list[str], list[Row]]:
    """Write rows as CSV; return the columns, and the rows with the cells of the file."""
    names = columns(rows)
    flat = [{name: plain(row.get(name)) for name in names} for row in rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    write(path, text.getvalue())
    return names, flat


def plain(value: Any) -> Any:
    """Return a value for one cell of a table; a list or dict becomes its JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, completely or not at all."""
    write(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write(path: Path, text: str) -> None:
    """Write a file completely or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
