"""Nova's notifications, through a broker in this process."""

from __future__ import annotations

import json
import queue
import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from kombu import Connection, Exchange, Producer

from cloudsim.model.errors import InputError
from workers.cloud_agent import nova_notifications
from workers.cloud_agent.nova_notifications import check_url, listen_to_nova


def _notification(event_type: str) -> dict[str, Any]:
    """What Nova publishes, without the payload."""
    return {"oslo.version": "2.0", "oslo.message": json.dumps({"event_type": event_type, "payload": {}})}


def test_what_takes_or_needs_room_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nova_notifications, "EXCHANGE", f"nova-{uuid4().hex}")
    monkeypatch.setattr(nova_notifications, "_AGAIN_S", 0.01)
    monkeypatch.setattr(nova_notifications, "_LOOK_S", 0.01)
    heard, stopping = queue.SimpleQueue[bool](), threading.Event()

    def hear(*, is_refusal: bool = False) -> None:
        heard.put(is_refusal)

    listened = ("memory://", None, hear, stopping)
    thread = threading.Thread(target=listen_to_nova, args=listened, daemon=True)
    thread.start()  # before Nova has published anything, there is no exchange
    with Connection("memory://") as connection:
        exchange = Exchange(nova_notifications.EXCHANGE, type="topic", durable=False)
        producer = Producer(connection, exchange)
        exchange(connection.default_channel).declare()
        assert not heard.get(timeout=60), "it listens"

        def publish(body: Any, priority: str) -> None:
            producer.publish(body, routing_key=f"versioned_notifications.{priority}", serializer="json")

        for body in ("text", {}, {"oslo.message": "no JSON"}, _notification("instance.update")):
            publish(body, "info")
        publish(_notification("compute_task.build_instances.error"), "error")
        assert heard.get(timeout=60), "a request that failed is heard as such"
        publish(_notification("instance.create.start"), "info")
        assert not heard.get(timeout=60), "a server that starts is heard"
        assert heard.empty()
    stopping.set()
    thread.join(60)
    assert not thread.is_alive()


def test_an_address_that_would_show_credentials_is_refused() -> None:
    for url in ("amqps://u:p@rabbit.example.org/", "amqp://u:p@127.0.0.1:5672//", "amqp://u:p@localhost/"):
        check_url(url)
    for url in ("amqp://u:p@rabbit.example.org/", "https://rabbit.example.org/", "rabbit", "amqps://"):
        with pytest.raises(InputError, match="amqps") as told:
            check_url(url)
        assert "u:p" not in str(told.value)


def test_certificates_are_verified(tmp_path: Path) -> None:
    tls = nova_notifications._tls("amqps://u:p@rabbit.example.org/", tmp_path / "ca.pem")
    assert tls is not None
    assert (tls["server_hostname"], tls["ca_certs"]) == ("rabbit.example.org", str(tmp_path / "ca.pem"))
    assert tls["cert_reqs"].name == "CERT_REQUIRED"
    assert nova_notifications._tls("amqp://127.0.0.1/", None) is None
