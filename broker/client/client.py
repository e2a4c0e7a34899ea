"""Opens the HTTP API as Python calls: ``Client(url, api_key)``.

with Client() as client:                                  # SPOTFED_URL and SPOTFED_API_KEY
    answer = client.requests.submit(SpotRequest(cores=2, lifetime_s=7200, sla=0.05))
    if isinstance(answer, RefusedRequest): ...            # a refusal is a value

All errors derive from ClientError; ``broker.client.errors`` draws their tree.
"""

from __future__ import annotations

from functools import cached_property
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from types import TracebackType
from typing import TYPE_CHECKING, Self

import httpx

from broker.client.transport import ApiTransport
from broker.settings import check_api_key, is_local
from broker.settings import settings as read_settings
from broker.storage.tls import api_context

if TYPE_CHECKING:
    from broker.client.resources.api_keys import ApiKeysResource
    from broker.client.resources.clouds import CloudsResource
    from broker.client.resources.events import EventsResource
    from broker.client.resources.instance import InstanceResource
    from broker.client.resources.jobs import JobsResource
    from broker.client.resources.leases import LeasesResource
    from broker.client.resources.ledger import LedgerResource
    from broker.client.resources.members import MembersResource
    from broker.client.resources.on_demand import OnDemandResource
    from broker.client.resources.requests import RequestsResource
    from broker.client.resources.targets import TargetsResource
    from broker.client.resources.webhooks import WebhooksResource

DEADLINE_S = 60.0


class Client:
    """Calls the API of one broker. One client may be used from several threads.

    Calls are grouped by resource: ``client.requests.submit(...)``, ``client.leases.list()``. While the broker
    is away or still at work (503, no connection, in flight), a call is repeated with the same id.

    Parameters
    ----------
    url, api_key
        Address of the API and key; SPOTFED_URL and SPOTFED_API_KEY by default.
    deadline_s
        Seconds after which a call is no longer repeated.
    timeout_s
        Seconds that each attempt may take.
    transport
        Transport of httpx to send with, for tests.

    Raises
    ------
    ValueError
        When the API key cannot be sent in a header; the message does not repeat it.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        deadline_s: float = DEADLINE_S,
        timeout_s: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ):
        settings = read_settings()
        if api_key is None and settings.api_key is not None:
            api_key = settings.api_key.get_secret_value()
        if api_key:
            api_key = check_api_key(api_key)
        url = url or settings.url
        is_encrypted = url.lower().startswith("https:")
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=timeout_s,
            transport=transport,
            # To load the authorities takes longer than a call; without TLS, none are trusted.
            verify=api_context(settings) if is_encrypted else SSLContext(PROTOCOL_TLS_CLIENT),
            trust_env=not is_local(url),  # no proxy lies before this machine
        )
        self._transport = ApiTransport(self._http, deadline_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # A resource is imported, with the messages that it speaks, when it is first used.

    @cached_property
    def requests(self) -> RequestsResource:
        """Ask the federation for spot instances, and for quotes."""
        from broker.client.resources.requests import RequestsResource

        return RequestsResource(self._transport)

    @cached_property
    def leases(self) -> LeasesResource:
        """Read, extend and end the leases of spot instances."""
        from broker.client.resources.leases import LeasesResource

        return LeasesResource(self._transport)

    @cached_property
    def clouds(self) -> CloudsResource:
        """Show the clouds of the federation and drain their nodes."""
        from broker.client.resources.clouds import CloudsResource

        return CloudsResource(self._transport)

    @cached_property
    def on_demand(self) -> OnDemandResource:
        """Start and stop on-demand instances."""
        from broker.client.resources.on_demand import OnDemandResource

        return OnDemandResource(self._transport)

    @cached_property
    def targets(self) -> TargetsResource:
        """Choose the lifetime to ask for, by what a cloud discloses."""
        from broker.client.resources.targets import TargetsResource

        return TargetsResource(self._transport)

    @cached_property
    def events(self) -> EventsResource:
        """Follow what happens in the federation."""
        from broker.client.resources.events import EventsResource

        return EventsResource(self._transport)

    @cached_property
    def ledger(self) -> LedgerResource:
        """Compare promises with what happened."""
        from broker.client.resources.ledger import LedgerResource

        return LedgerResource(self._transport)

    @cached_property
    def instance(self) -> InstanceResource:
        """Speak for an instance of a real cloud, whose token is the client's key."""
        from broker.client.resources.instance import InstanceResource

        return InstanceResource(self._transport)

    @cached_property
    def jobs(self) -> JobsResource:
        """Run batch jobs, and show their state and logs."""
        from broker.client.resources.jobs import JobsResource

        return JobsResource(self._transport)

    @cached_property
    def members(self) -> MembersResource:
        """Manage members."""
        from broker.client.resources.members import MembersResource

        return MembersResource(self._transport)

    @cached_property
    def api_keys(self) -> ApiKeysResource:
        """Manage API keys."""
        from broker.client.resources.api_keys import ApiKeysResource

        return ApiKeysResource(self._transport)

    @cached_property
    def webhooks(self) -> WebhooksResource:
        """Manage webhooks."""
        from broker.client.resources.webhooks import WebhooksResource

        return WebhooksResource(self._transport)
