"""What workers answer to Celery's remote control."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from celery.worker.control import Panel

from broker.settings import Settings
from workers import worker_process
from workers.worker_process import COMMANDS, SoloPool


@pytest.mark.parametrize(
    "url",
    ["unix:///run/redis.sock?username=u&password=hunter2", "redis://u:hunter2@localhost:6379/0"],
)
def test_figures_of_a_worker_hold_no_password(url: str) -> None:
    app = worker_process.create_app(Settings(redis_url=url))
    broker = {**app.connection_for_read().info()}
    del broker["password"]  # Celery leaves that out
    controller = SimpleNamespace(stats=lambda: {"broker": broker})
    state = SimpleNamespace(app=app, consumer=SimpleNamespace(controller=controller))
    assert "hunter2" not in repr(Panel.data["stats"](state))
    assert "hunter2" not in repr(Panel.data["conf"](state, with_defaults=True))
    assert "hunter2" not in repr(Panel.data["report"](state))


def test_workers_know_the_commands_of_the_list_alone() -> None:
    worker_process.create_app(Settings(redis_url="redis://localhost:1"))
    assert Panel.data.keys() == COMMANDS


def test_a_solo_worker_stays_solo() -> None:
    with pytest.raises(ValueError, match="solo by construction"):
        SoloPool().grow(1)
