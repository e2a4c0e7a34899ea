"""The federation: contract, routing, event journal, HTTP API, client and command line of spotfed.

``docs/reference/words.md`` explains the words, each of which has one meaning. A name that holds a quantity
carries its unit (``lifetime_s``, ``price_usd_per_hour``).
"""

import sys
from types import ModuleType

# httpx imports its own command line, with click, rich and pygments, if it can; that is a third of its start.
sys.modules.setdefault("httpx._main", ModuleType("httpx._main"))
