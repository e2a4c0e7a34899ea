"""Metrics that the API tells Prometheus."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from broker.api.meter import Meter
from broker.cli.reference.markdown import code, laid_out, prose, table
from broker.metrics import SLA_BOUNDS, Facts, QueueFacts, confidential, public
from broker.versions import VERSION

_OURS = "spotfed_"


def page() -> str:
    """The page."""
    nothing = Facts((), QueueFacts(0, 0, 0, 0), ("", VERSION))
    steps = ", ".join(f"{bound:g}" for bound in SLA_BOUNDS)
    told = (
        "An operator's key gets all of them, any other key the first group. What is true of the federation "
        "every API process tells alike: take the `max` over processes. The last group is each process's own: "
        f"take the `sum`. SLAs are told in steps: {steps}."
    )
    parts = [
        told,
        "",
        "## What the adverts tell",
        "",
        _table(public(nothing)),
        "",
        "## The rest of the federation",
        "",
        _table(confidential(nothing)),
        "",
        "## Each API process's own",
        "",
        "Beside these, `process_` metrics of the Prometheus client: processor time, memory and open files.",
        "",
        _table(one for one in Meter().registry.collect() if one.name.startswith(_OURS)),
    ]
    about = "What `GET /metrics` of the API tells Prometheus."
    return laid_out("Metrics", about, *parts, source="`broker.metrics` and `broker.api.meter`")


def _table(families: Iterable[Metric]) -> str:
    rows = [
        (code(one.name + ("_total" if one.type == "counter" else "")), one.type, prose(one.documentation))
        for one in families
    ]
    return table(("metric", "type", "what"), rows)
