"""Serves the page that shows the OpenAPI document, without scripts from other hosts."""

from __future__ import annotations

from importlib import resources

from fastapi import APIRouter
from starlette.responses import Response

router = APIRouter(include_in_schema=False)


@router.get("/docs")
async def docs() -> Response:
    """Return the page."""
    return _file("docs.html", "text/html")


@router.get("/docs.js")
async def script() -> Response:
    """Return the script of the page."""
    return _file("docs.js", "text/javascript")


def _file(name: str, media_type: str) -> Response:
    text = resources.files("broker.api").joinpath(name).read_text(encoding="utf-8")
    policy = "default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"
    return Response(text, media_type=media_type, headers={"Content-Security-Policy": policy})
