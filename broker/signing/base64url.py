"""Writes and reads base64url without padding (RFC 7515), in exactly one spelling."""

from __future__ import annotations

import base64
import binascii


def encode_base64url(data: bytes) -> bytes:
    """Write bytes as base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def decode_base64url(text: bytes) -> bytes:
    """Read base64url. Raises ValueError for anything that ``encode_base64url`` does not write."""
    try:
        data = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise ValueError("not base64url") from None
    if encode_base64url(data) != text:
        raise ValueError("not base64url as it is written here")
    return data
