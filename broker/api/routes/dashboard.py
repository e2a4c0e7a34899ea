"""Serves the dashboard's files as they are in the package. They are public, and hold no secret."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Header
from starlette.responses import Response

from broker.api import problems
from broker.dashboard import codes_module

#: The page may talk to this API and to nothing else; no text becomes a script.
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
_MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

router = APIRouter(include_in_schema=False)


class _File(NamedTuple):
    media_type: str
    content: bytes
    etag: str


@router.get("/")
async def dashboard(if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """Return the page."""
    return _respond("index.html", if_none_match)


@router.get("/dashboard/{name}")
async def part(name: str, if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """Return a style, script or picture of the page; 404 for any other name."""
    return _respond(name, if_none_match)


def _respond(name: str, known_etags: str | None) -> Response:
    file = _files().get(name)
    if file is None:
        raise problems.not_found("file")
    # Browsers ask each time (no-cache), so that a new broker is not shown with the page of an older one.
    headers = {
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
        "ETag": file.etag,
    }
    if known_etags is not None and file.etag in known_etags:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


@cache
def _files() -> dict[str, _File]:
    """Read all files of the dashboard, and write ``codes.js``; return them by name."""
    contents = {"codes.js": codes_module().encode()}
    for path in resources.files("broker.dashboard").iterdir():
        if path.name.rpartition(".")[2] in _MEDIA_TYPES:
            contents[path.name] = path.read_bytes()
    return {
        name: _File(_MEDIA_TYPES[name.rpartition(".")[2]], content, f'"{sha256(content).hexdigest()[:32]}"')
        for name, content in contents.items()
    }
