"""The dashboard's files, as they are in the package: public, and nothing in them is secret."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Annotated

from fastapi import APIRouter, Header
from starlette.responses import Response

from broker.api import problems
from broker.dashboard import reasons_module

#: The page talks to this API and to nothing else; no text becomes a script.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

router = APIRouter(include_in_schema=False)


@router.get("/")
async def dashboard(if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """The page."""
    return _answer("index.html", if_none_match)


@router.get("/dashboard/{name}")
async def part(name: str, if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """What the page is made of. 404 for any other name."""
    return _answer(name, if_none_match)


def _answer(name: str, known: str | None) -> Response:
    found = _files().get(name)
    if found is None:
        raise problems.not_found("file")
    kind, content, tag = found
    # Asked for anew each time, so that an upgraded broker is not shown with the page of the one before.
    headers = {
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
        "ETag": tag,
    }
    if known is not None and tag in known:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=kind, headers=headers)


@cache
def _files() -> dict[str, tuple[str, bytes, str]]:
    """By name: media type, content, and the tag that names this content."""
    contents = {"reasons.js": reasons_module().encode()}
    for file in resources.files("broker.dashboard").iterdir():
        if file.name.rpartition(".")[2] in _KINDS:
            contents[file.name] = file.read_bytes()
    return {
        name: (_KINDS[name.rpartition(".")[2]], content, f'"{sha256(content).hexdigest()[:32]}"')
        for name, content in contents.items()
    }
