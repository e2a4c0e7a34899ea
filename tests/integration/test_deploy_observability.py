"""Alert rules and dashboard are sound: promtool reads and tests them, and Grafana would find its way."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "spotfed.json").read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
RULES = (PROMETHEUS / "rules.yml").read_text(encoding="utf-8")
RULES_TEST = (PROMETHEUS / "rules_test.yml").read_text(encoding="utf-8")


def queries() -> list[str]:
    """Of the dashboard, with values for what Grafana puts in."""
    told = [target["expr"] for panel in PANELS for target in panel["targets"]]
    return [one.replace("$cloud", ".*").replace("$__rate_interval", "1m") for one in told]


@pytest.fixture(scope="module")
def promtool() -> str:
    """Prometheus' own checker; a test without it is skipped, but fails in CI."""
    found = shutil.which("promtool")
    if found is None:
        reason = "no promtool on the PATH: install Prometheus (Debian: apt-get install prometheus)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def checked(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_rules(promtool: str) -> None:
    told = checked(promtool, "check", "rules", "--lint-fatal", PROMETHEUS / "rules.yml")
    assert f"{len(re.findall('- alert:', RULES))} rules found" in told


def test_each_alert_fires_on_what_it_is_for_and_not_before(promtool: str) -> None:
    assert "SUCCESS" in checked(promtool, "test", "rules", PROMETHEUS / "rules_test.yml")


def test_every_alert_is_tested_firing() -> None:
    alerts = re.findall(r"- alert: (\w+)", RULES)
    fires = re.findall(r"alertname: (\w+)\n\s+exp_alerts:\n\s+- exp_labels", RULES_TEST)
    assert len(alerts) == len(set(alerts))
    assert set(alerts) == set(fires)


def test_the_configuration_is_one_and_reads_the_rules(promtool: str) -> None:
    checked(promtool, "check", "config", "--syntax-only", PROMETHEUS / "prometheus.yml")
    assert "  - rules.yml\n" in (PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8")


def test_prometheus_reads_every_query_of_the_dashboard(promtool: str, tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries())]
    file = tmp_path / "queries.yml"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}), encoding="utf-8")
    assert f"{len(rules)} rules found" in checked(promtool, "check", "rules", file)


def test_what_every_process_tells_alike_is_not_added_up() -> None:
    """Figures of the federation are grouped by ``max`` before anything is summed."""
    own = r"spotfed_(http|admission|spot_requests|refusals|replies|event_loop)\w*"
    expressions = [*queries(), *re.findall(r"expr: (.*(?:\n\s{10}.*)*)", RULES)]
    wrong = [
        expression
        for expression in expressions
        for inner in re.findall(r"\bsum(?: by \([\w, ]*\))?\s*\(\s*(\w+)(?:\((\w+))?", expression)
        for name in inner
        if name.startswith("spotfed_") and not re.fullmatch(own, name)
    ]
    assert wrong == []
