"""A broker API on a port of its own, and owners that answer in threads: real Redis and HTTP, no Celery."""

import asyncio
import atexit
import json
import shutil
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import redis
import uvicorn

from broker.api.app import create_app
from broker.api.container import ApiServices
from broker.api.http_protocol import LimitedHttpProtocol
from broker.contract import CloudInfo
from broker.contract.convert import to_node_kinds
from broker.identity.store import let_in_operator
from broker.journal.inbox import MalformedCommand
from broker.journal.journal import Commit, Journal
from broker.settings import Settings
from broker.signing.key_files import KeyFiles, SigningKey, TrustFile
from broker.signing.parties import BROKER, cloud_party
from broker.signing.signer import MessageSigner
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from cloudsim.admission.fair_share import FairShare
from cloudsim.admission.pools import POOLS
from cloudsim.cloud.spec import CloudSpec
from cloudsim.disclosure.levels import Disclosure
from cloudsim.model.nodes import CORES_ONLY, NodeDetails
from cloudsim.scheduling.lineups import YOUNGEST_JOB_FIRST, LineUp
from cloudsim.scheduling.pipeline import warm_up
from tests.support.wait import LIMIT_S
from workers.owner.event_writer import Decisions
from workers.owner.owner import Owner
from workers.owner.state import OwnerSpec

KEY = "a-test-key"
#: How long calls wait for an owner that means to answer: a thread of a machine under load may stand still.
PATIENCE = {"reply_deadline_s": 30.0, "trace_reply_deadline_s": 30.0}

#: ``spotfed`` with its arguments: exit code, output and errors.
Run = Callable[..., tuple[int, str, str]]


class FakeOwner(threading.Thread):
    """The real state machine of an owner and its real journal, driven by a loop that polls its inbox.

    ``clock``: the cloud's time. ``on_silence``: is told whether the owner leaves calls unanswered.
    """

    def __init__(
        self,
        url: str,
        keys: RedisKeys,
        cloud: str,
        nodes: tuple[int, ...],
        order: int,
        details: NodeDetails = CORES_ONLY,
        grace_s: float = 0.0,
        lineup: LineUp = YOUNGEST_JOB_FIRST,
        clock: Callable[[], float] = time.time,
        disclosure: Disclosure = Disclosure.FULL,
        pools: int = POOLS,
        slices_s: tuple[float, ...] = (),
        fair_share: FairShare | None = None,
        runs_commands: bool = False,
        on_silence: Callable[[bool], None] = lambda _: None,
        **options: Any,
    ):
        super().__init__(daemon=True, name=f"owner-{cloud}")
        self.cloud, self.order = cloud, order
        spec = CloudSpec(
            cloud, nodes, details, lineup, grace_s, disclosure=disclosure, pools=pools, slices_s=slices_s,
            fair_share=fair_share,
        )  # fmt: skip
        self.spec = OwnerSpec(spec, **options)
        self._clock = clock
        self._deaf, self._swallows, self._rests = threading.Event(), threading.Event(), threading.Event()
        self._on_silence = on_silence
        self.handled: list[Any] = []
        self._redis = connect(url)
        self._connection = self._redis.client_id()  # of its only connection, as one thread uses it
        party, files = cloud_party(cloud), signing_files()
        files.ensure([party])
        signing = MessageSigner(SigningKey(files.key(party)), TrustFile(files.trust))
        self._journal = Journal(self._redis, keys, cloud, signing)
        self._inbox = keys.inbox(cloud)
        self._token = uuid.uuid4().hex
        self._ending = threading.Event()
        self._events = 0
        warm_up(lineup)
        epoch = self._journal.acquire(self._token, 60)
        assert epoch is not None
        self.owner = Owner(self.spec, epoch)
        nodes_text = ",".join(map(str, nodes))
        self.info = CloudInfo(
            id=cloud,
            order=order,
            nodes=nodes_text,
            cores=sum(nodes),
            largest_node=max(nodes),
            time="trace" if self.spec.trace_time else "wall",
            overflow=self.spec.overflow,
            node_kinds=to_node_kinds(nodes, details),
            pools=spec.products.pools.bands if spec.products.pools else (),
            slices_s=slices_s,
            fair_share=fair_share is not None,
            runs_commands=runs_commands,
        )
        self._journal.publish_info(self.info)
        self._commit(self.owner.open(0.0, _now()), None)

    def tell(self, **changes: Any) -> None:
        """Says anew what the cloud is, with some of it changed."""
        self.info = self.info.model_copy(update=changes)
        self._journal.publish_info(self.info)

    def go_deaf(self) -> None:
        """Reads and answers what was sent before this call, and then nothing until ``hear``.

        A confirmation is in the inbox before its request is answered; so a lease that was granted runs.
        """
        self._rests.clear()
        self._deaf.set()
        assert self._rests.wait(LIMIT_S) or self._ending.is_set()
        self._on_silence(True)

    def hear(self) -> None:
        """Reads and answers again, what was sent meanwhile too."""
        self._on_silence(False)
        self._deaf.clear()

    def swallow_answers(self) -> None:
        """From now on it carries commands out and does not answer."""
        self._swallows.set()
        self._on_silence(True)

    def show_table(self, shown: Mapping[str, Any]) -> None:
        """Publishes a table as the process of an owner does."""
        self._journal.set_table(json.dumps(shown))

    def running(self) -> list[str]:
        """Ids of what runs on its nodes."""
        return [instance.id for instance in self.owner.cloud.inventory]

    def run(self) -> None:
        cursor, advertised_s = "0-0", 0.0
        while not self._ending.is_set():
            deaf = self._deaf.is_set()  # asked before the inbox is read
            if deaf and self._rests.is_set():
                time.sleep(0.01)
                continue
            self._redis.xread({self._inbox: cursor}, count=64, block=20)
            entries = self._journal.read_inbox(cursor)
            outcome = Decisions()
            for entry, commands in entries:
                cursor = entry
                for command in commands:
                    assert not isinstance(command, MalformedCommand), command
                    self.handled.append(command)
                    outcome.extend(self.owner.handle(command, self._clock(), _now()))
            if entries or time.monotonic() > advertised_s + 0.5:
                advertised_s = time.monotonic()
                self._commit(outcome, cursor if entries else None)
            if deaf and not entries:
                self._rests.set()

    def _commit(self, outcome: Decisions, cursor: str | None) -> None:
        replies: dict[str, list[Any]] = {}
        for stream, reply in outcome.replies:
            if not self._swallows.is_set():
                replies.setdefault(stream, []).append(reply)
        self._journal.commit(
            Commit(
                epoch=self.owner.epoch,
                token=self._token,
                ttl_s=60,
                first=self._events + 1,
                events=outcome.events,
                cursor=cursor,
                replies=replies,
                leases=outcome.leases,
                advert=self.owner.advert(_now()),
                overflow=[json.dumps(item) for item in outcome.overflow],
            )
        )
        self._events += len(outcome.events)

    def end(self) -> None:
        """Lets it stop at its next turn, which comes at once when it waits for commands."""
        self._ending.set()
        with suppress(redis.RedisError):
            self._redis.client_unblock(self._connection)

    def stop(self) -> None:
        """Stops it and waits until it has stopped."""
        self.end()
        self.join(LIMIT_S)
        self._on_silence(True)
        self._redis.close()


class Federation:
    """One broker and its owners, under a key prefix of its own."""

    def __init__(self, redis_url: str, **settings: Any):
        self.prefix = f"t{uuid.uuid4().hex[:12]}:"
        self.keys = RedisKeys(self.prefix)
        self.redis_url = redis_url
        files = signing_files()
        signing = {"trust": files.trust, "signing_key": files.key(BROKER)}
        self._patience = PATIENCE | settings
        self._impatience = {name: settings.get(name, 1.0) for name in PATIENCE}
        told = self._patience | {"api_key": None} | signing | settings
        self.settings = Settings(redis_url=redis_url, key_prefix=self.prefix, **told)
        self.owners: dict[str, FakeOwner] = {}
        self.url = ""
        self._server: _Server | None = None

    @property
    def redis(self) -> redis.Redis:
        return connect(self.redis_url)

    def journal(self, cloud: str) -> Journal:
        """A cloud's journal and inbox, for who sends commands as the broker does."""
        files = signing_files()
        signing = MessageSigner(SigningKey(files.key(BROKER)), TrustFile(files.trust))
        return Journal(self.redis, self.keys, cloud, signing)

    def join(self, cloud: str, nodes: tuple[int, ...] = (8,), **options: Any) -> FakeOwner:
        options = {"on_silence": self.expect_silence} | options
        owner = FakeOwner(self.redis_url, self.keys, cloud, nodes, len(self.owners), **options)
        self.owners[cloud] = owner
        owner.start()
        self.forget_members()
        return owner

    def expect_silence(self, expected: bool) -> None:
        """Calls from now on wait for a silent owner for a second only, or again for ``PATIENCE``.

        Deadlines that the test named itself stay.
        """
        patience = self._impatience if expected else self._patience
        vars(self.settings).update({name: patience[name] for name in PATIENCE})  # which are frozen else

    def forget_adverts_after(self, max_age_s: float) -> None:
        """From now on a cloud is unreachable when its advert is older."""
        self.services.membership._max_age_s = max_age_s

    def forget_members(self) -> None:
        """Makes the API read the members anew at the next call, instead of a tenth of a second later."""
        if self._server is not None:
            self._server.forget_members()

    @property
    def services(self) -> ApiServices:
        """The services of the API."""
        assert self._server is not None
        services: ApiServices = self._server.app.state.services
        return services

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs something on the event loop of the API and returns its result."""
        assert self._server is not None
        return asyncio.run_coroutine_threadsafe(work, self._server.loop).result(LIMIT_S)

    @property
    def open_calls(self) -> int:
        """How many calls the API is answering now."""
        assert self._server is not None
        return len(self._server.server_state.tasks)

    def stop(self) -> None:
        """Stops the owners and the API together, which takes as long as the slowest of them."""
        server, self._server = self._server, None
        for owner in self.owners.values():
            owner.end()
        if server is not None:
            server.stop()
        for owner in self.owners.values():
            owner.stop()

    def serve(self) -> None:
        """Starts the API in a thread and returns once it answers."""
        assert self._server is None, "the one that runs would never be stopped"
        self._server = _Server(self.settings)
        self.url = self._server.url


class _Server(uvicorn.Server):
    """Serves the API of one federation from a thread.

    It stops at once, whereas uvicorn itself sleeps twice for a tenth of a second.
    """

    def __init__(self, settings: Settings):
        self.app = create_app(settings)
        told = {"settings": staticmethod(lambda: settings)}
        http = type("Protocol", (LimitedHttpProtocol,), told)
        super().__init__(
            uvicorn.Config(self.app, http=http, log_level="warning", timeout_graceful_shutdown=1)
        )
        # With its protocol named, asyncio sends without delay: else each answer waits for an acknowledgement.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen()
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._ready, self.loop, self._stopping = threading.Event(), asyncio.new_event_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="api", daemon=True)
        self._thread.start()
        self._ready.wait(LIMIT_S)
        assert self.started, "the API does not start"

    def forget_members(self) -> None:
        """Returns once no member is cached."""
        asyncio.run_coroutine_threadsafe(self._forget_members(), self.loop).result(LIMIT_S)

    async def _forget_members(self) -> None:
        membership = self.app.state.services.membership
        async with membership._refreshing:  # what is read at this moment may be without the new member
            membership._refreshed_s = float("-inf")

    def stop(self) -> None:
        """Returns once it has stopped."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(LIMIT_S)
        self._socket.close()
        assert not self._thread.is_alive(), "the API does not stop"

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            try:
                runner.run(self.serve([self._socket]))
            finally:
                self._ready.set()

    async def main_loop(self) -> None:
        """Serves until it is told to stop."""
        await self.on_tick(0)
        self._ready.set()
        await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Closes the connections, waits at most a second for calls that run, and ends the application."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        gives_up_s = time.monotonic() + 1
        while (self.server_state.connections or self.server_state.tasks) and time.monotonic() < gives_up_s:
            await asyncio.sleep(0.002)
        for task in self.server_state.tasks:
            task.cancel()
        await self.lifespan.shutdown()


@contextmanager
def serving(federation: Federation) -> Iterator[Federation]:
    """The API in a thread, until the block ends."""
    with connect(federation.redis_url) as client:
        let_in_operator(client, federation.keys, KEY, "tester")
    try:
        federation.serve()
        yield federation
    finally:
        federation.stop()


@cache
def signing_files() -> KeyFiles:
    """Keys of the broker and of every cloud that joined a federation: all messages here are signed."""
    directory = tempfile.mkdtemp(prefix="spotfed-keys-")
    atexit.register(shutil.rmtree, directory)
    files = KeyFiles(Path(directory))
    files.ensure([BROKER])
    return files


def _now() -> str:
    return datetime.now(UTC).isoformat()
