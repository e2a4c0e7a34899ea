"""Opens the HTTP API as Python calls: ``Client(url, api_key)``.

with Client() as client:                                  # SPOTFED_URL and SPOTFED_API_KEY
    answer = client.requests.submit(SpotRequest(cores=2, lifetime_s=7200, sla=0.05))
    if isinstance(answer, RefusedRequest): ...            # a refusal is a value

All errors derive from ClientError; ``broker.client.errors`` draws their tree.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import httpx

from broker.client.resources.api_keys import ApiKeysResource
from broker.client.resources.clouds import CloudsResource
from broker.client.resources.events import EventsResource
from broker.client.resources.jobs import JobsResource
from broker.client.resources.leases import LeasesResource
from broker.client.resources.ledger import LedgerResource
from broker.client.resources.members import MembersResource
from broker.client.resources.on_demand import OnDemandResource
from broker.client.resources.requests import RequestsResource
from broker.client.resources.targets import TargetsResource
from broker.client.resources.webhooks import WebhooksResource
from broker.client.transport import ApiTransport
from broker.settings import check_api_key, is_local
from broker.settings import settings as read_settings
from broker.storage.tls import api_context

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
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=timeout_s,
            transport=transport,
            verify=api_context(settings),
            trust_env=not is_local(url),  # no proxy lies before this machine
        )
        self._transport = api = ApiTransport(self._http, deadline_s)
        self.requests = RequestsResource(api)
        self.leases = LeasesResource(api)
        self.clouds = CloudsResource(api)
        self.on_demand = OnDemandResource(api)
        self.targets = TargetsResource(api)
        self.events = EventsResource(api)
        self.ledger = LedgerResource(api)
        self.jobs = JobsResource(api)
        self.members = MembersResource(api)
        self.api_keys = ApiKeysResource(api)
        self.webhooks = WebhooksResource(api)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()
