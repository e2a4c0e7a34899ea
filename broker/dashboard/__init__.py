"""The dashboard: static files for a browser, which asks the HTTP API for everything it shows.

``index.html`` with its styles and ES modules, served as they are (``broker.api.routes.dashboard``). There
is no build step, nothing comes from elsewhere, nothing secret is in them: the API key is typed in and kept in
the browser's session storage. A view is a module with ``title`` and ``mount(root, federation, about)``, which
gives ``about`` (another cloud is chosen) and ``end``; its address is its name after the ``#``. ``codes.js``
alone is not a file: ``codes_module`` writes it from the reasons of refusals and the kinds of events.
"""

import json

from broker.contract import EventKind
from cloudsim.model.refusals import RefusalReason


def codes_module() -> str:
    """Return the ES module of ``REASONS`` (the texts of refusals) and ``EVENT_KINDS`` (badges), by code."""
    texts = {reason.value: reason.text for reason in RefusalReason}
    badges = {kind.value: kind.tone for kind in EventKind if kind.is_public}
    return (
        f"export const REASONS = {json.dumps(texts, indent=2)};\n"
        f"export const EVENT_KINDS = {json.dumps(badges, indent=2)};\n"
    )
