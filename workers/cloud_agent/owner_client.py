"""Send commands to the owner of the agent's cloud, and wait for its answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import redis
import structlog
from kombu.exceptions import OperationalError
from pydantic import ValidationError

from broker.contract import Answer, Command, replies, write_messages
from broker.signing.parties import cloud_party
from broker.signing.signer import MessageSigner, SignatureError, written_ms
from broker.storage.keys import RedisKeys

_BLOCK_MS = 200

log = structlog.get_logger(__name__)


class OwnerClient:
    """Asks the owner, one question at a time. Its methods raise redis.RedisError while Redis is away."""

    def __init__(
        self,
        client: redis.Redis,
        keys: RedisKeys,
        cloud: str,
        process: str,
        signing: MessageSigner,
        ring: Callable[[str], object],
    ):
        """Set up the client.

        Parameters
        ----------
        process:
            A name of this process, in the key of its reply stream.
        ring:
            Tells the owner of a cloud to read its inbox; raises OperationalError.
        """
        self._client, self._cloud, self._signing, self._ring = client, cloud, signing, ring
        self._inbox = keys.inbox(cloud)
        self._stream = keys.instance_replies(cloud, process)
        self.reply_to = self._stream.removeprefix(keys.replies(""))
        self._last = "0-0"

    def ask(self, commands: Sequence[Command], deadline_s: float) -> dict[str, Answer]:
        """Send commands and return the answers by command id.

        A command that is not answered within ``deadline_s`` is missing. It may be sent again.
        """
        body = write_messages(commands).encode()
        fields = self._signing.fields("c", body, self._inbox)
        self._client.xadd(self._inbox, cast("dict[Any, Any]", fields))
        try:
            self._ring(self._cloud)
        except OperationalError as error:
            log.info("the owner is not rung for", cloud=self._cloud, why=str(error))
        pending, answers = {command.id for command in commands}, dict[str, Answer]()
        until_s = time.monotonic() + deadline_s
        while pending - set(answers) and time.monotonic() < until_s:
            answers |= self._read_answers()
        self._client.delete(self._stream)  # answers that came too late are asked for again
        return {name: answers[name] for name in pending & set(answers)}

    def _read_answers(self) -> dict[str, Answer]:
        read: Any = self._client.xread({self._stream: self._last}, block=_BLOCK_MS)
        answers: dict[str, Answer] = {}
        for entry, fields in read[0][1] if read else ():
            self._last = entry.decode()
            try:
                body, issuers = fields[b"r"], {cloud_party(self._cloud)}
                self._signing.verify(fields.get(b"s"), body, self._stream, issuers, written_ms(self._last))
                answers |= {
                    reply.command: reply.answer for reply in replies.validate_json(body, extra="ignore")
                }
            except SignatureError as error:
                log.warning("an answer is not believed", why=str(error))
            except (KeyError, ValidationError):
                log.warning("an answer cannot be read")
        return answers
