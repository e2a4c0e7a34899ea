"""Whether the RabbitMQ that Celery was told to use answers; ``spotfed doctor`` asks."""

from __future__ import annotations

from kombu.exceptions import OperationalError

from broker.finding import Finding, failure, ok
from broker.queue import make_app
from broker.queue_health import public_address
from broker.settings import Settings


def celery_finding(told: Settings) -> Finding | None:
    """Connects once, with the patience that the queue has; None where Celery's messages go through Redis."""
    if told.celery_broker_url is None:
        return None
    address = public_address(told.celery_broker_url)
    # Only the broker is asked: whether Redis is told does not matter here.
    app = make_app(told.model_copy(update={"redis_url": told.redis_url or "redis://127.0.0.1"}))
    try:
        with app.connection_for_read() as connection:
            errors = (OSError, OperationalError, *connection.connection_errors, *connection.channel_errors)
            try:
                connection.connect()
            except errors as error:
                return failure(
                    "celery broker",
                    f"{address} does not answer: {str(error) or type(error).__name__}",
                    "start it, or correct SPOTFED_CELERY_BROKER_URL (address, user, password, virtual host)",
                )
    finally:
        app.close()
    return ok("celery broker", f"{address} answers; doorbells and batches go through it")
