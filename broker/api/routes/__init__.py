"""Routes of the HTTP API, one module a resource.

Every module has a ``router``, from ``broker.api.dependencies.v1_router`` if its paths begin with ``/v1``; all
modules of this package are found. The names of route functions are part of the ``operationId`` in the OpenAPI
document, by which generated clients know them: they do not change.
"""

from importlib import import_module
from pkgutil import iter_modules

from fastapi import APIRouter

#: Tried first, in this order: a path is compared with those of all modules before its own.
_FREQUENT = ["requests", "leases", "quotes", "on_demand"]


def _collect() -> APIRouter:
    router = APIRouter()
    names = [module.name for module in iter_modules(__path__)]
    for name in sorted(names, key=(_FREQUENT + names).index):
        router.include_router(import_module(f"{__name__}.{name}").router)
    return router


#: All routes. FastAPI takes 60 ms to prepare them at the first call: collected here, they are prepared once
#: for all applications of a process.
router = _collect()
