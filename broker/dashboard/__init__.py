"""The dashboard: static files for a browser, which asks the HTTP API for everything it shows.

``index.html`` with its styles and ES modules, served as they are (``broker.api.routes.dashboard``). There
is no build step, nothing comes from elsewhere, nothing secret is in them: the API key is typed in and kept in
the browser's session storage. A view is a module with ``title`` and ``mount(root, federation, about)``, which
gives ``about`` (another cloud is chosen) and ``end``; its address is its name after the ``#``. ``reasons.js``
alone is not a file: ``reasons_module`` writes it from the reasons of refusals.
"""

import json

from cloudsim.model.refusals import RefusalReason


def reasons_module() -> str:
    """Return the ES module that exports ``REASONS``: the text of each reason of refusals by its code."""
    texts = {reason.value: reason.text for reason in RefusalReason}
    return f"export const REASONS = {json.dumps(texts, indent=2)};\n"
