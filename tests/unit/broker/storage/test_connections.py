"""What an answer of Redis means, however a version of it words the answer."""

import asyncio

import pytest
import redis
import uvloop
from redis._parsers import BaseParser

from broker.storage.connections import DemotedError, connect_async

IN_A_SCRIPT = "ERR Error running script (call to f_82cd): @user_script:1: @user_script: 1: -"  # Redis 6.2


@pytest.mark.parametrize("prefix", ["", IN_A_SCRIPT])
@pytest.mark.parametrize(
    ("answer", "meaning", "text"),
    [
        ("READONLY You can't write against a read only replica.", DemotedError, "You can't write"),
        ("OOM command not allowed when used memory > 'maxmemory'.", redis.OutOfMemoryError, "command not"),
        ("MISCONF Redis is configured to save RDB snapshots", redis.ResponseError, "MISCONF Redis"),
    ],
)
def test_what_a_script_meets_is_told_as_what_a_command_meets(
    prefix: str, answer: str, meaning: type[Exception], text: str
) -> None:
    error = BaseParser.parse_error(prefix + answer)
    assert (type(error), str(error).startswith(text)) == (meaning, True)


def test_a_script_that_fails_itself_is_not_mistaken() -> None:
    error = BaseParser.parse_error(
        "ERR Error running script (call to f_82cd): @user_script:1: attempt to index"
    )
    assert type(error) is redis.ResponseError


def test_a_connection_that_has_ended_is_made_anew(redis_url: str) -> None:
    """The system ends those to a host that is gone, also while nobody uses them."""

    async def story() -> None:
        client = connect_async(redis_url)
        await client.ping()
        connection = await client.connection_pool.get_connection()
        connection._writer.transport.abort()
        with pytest.raises(redis.ConnectionError, match="has ended"):
            await connection.send_command("PING")
        await client.connection_pool.release(connection)
        assert await client.ping()
        await client.aclose()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story())
