"""Checks the targets of webhooks: the broker posts to URLs of members from inside its network.

These must not lead to what only the broker can reach. A URL is parsed once, its host is resolved once, every
address is judged, and the sender connects to these addresses and to no other: a DNS answer that changes later
changes nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from urllib.parse import urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
#: Resolves a host and a port to addresses. Raises OSError if there are none.
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

LONGEST_URL = 2048
_FIRST_FREE_PORT = 1024
_STANDARD_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(
    r"(?=.{1,253}\.?$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\.?"
)
_BRACKETS = re.compile(r"\[[^\[\]]*\](:\d+)?")
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")  # WHATWG: a host whose last label is a number is an IPv4 address

# Own tables, after IANA's registries of special-purpose addresses: those of `ipaddress` differ between
# versions of Python.
_NOT_PUBLIC: tuple[tuple[str, tuple[Network, ...]], ...] = tuple(
    (kind, tuple(map(ipaddress.ip_network, networks)))
    for kind, networks in (
        ("unspecified", ("0.0.0.0/8", "::/128")),
        ("loopback", ("127.0.0.0/8", "::1/128")),
        ("private", ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10")),
        ("shared (carrier-grade NAT)", ("100.64.0.0/10",)),
        ("link-local", ("169.254.0.0/16", "fe80::/10")),
        ("multicast", ("224.0.0.0/4", "ff00::/8")),
        ("a cloud's metadata service", ("168.63.129.16/32",)),
        (
            "for documentation or benchmarks only",
            (
                "192.0.2.0/24",
                "198.18.0.0/15",
                "198.51.100.0/24",
                "203.0.113.0/24",
                "2001:db8::/32",
                "3fff::/20",
            ),
        ),
        ("a tunnel to IPv4", ("192.88.99.0/24", "2001::/32", "2002::/16", "64:ff9b:1::/48")),
        ("reserved", ("192.0.0.0/24", "240.0.0.0/4", "2001::/23")),
    )
)
_PUBLIC_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
# Refused even if an allowed network contains them.
_NEVER = tuple(
    map(
        ipaddress.ip_network,
        [
            *("0.0.0.0/8", "::/128", "224.0.0.0/4", "ff00::/8", "169.254.169.254/32", "169.254.170.0/24"),
            *(
                "100.100.100.200/32",
                "168.63.129.16/32",
                "192.0.0.192/32",
                "fd00:ec2::/32",
                "fd20:ce::254/128",
            ),
        ],
    )
)


class TargetError(ValueError):
    """Raised for a URL that webhooks do not go to; the message says why, without the resolved addresses."""


@dataclass(frozen=True)
class WebhookTarget:
    """A parsed URL. host: a name without a trailing dot, or an address without brackets."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _STANDARD_PORTS[self.scheme] else f"{host}:{self.port}"


def parse_target(url: str) -> WebhookTarget:
    """Parse a URL, more strictly than browsers do. Raises TargetError.

    Ports below 1024 are refused except 443, and 80 over http: they belong to other protocols.
    """
    if len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or set(url) & set(' "<>\\^`{|}'):
        raise TargetError(
            f"must be ASCII without spaces, at most {LONGEST_URL} characters (other names: xn--…)"
        )
    authority = re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]
    # Checked before urlsplit, which treats it differently in each version of Python.
    if authority.startswith("[") and "]" in authority and not _BRACKETS.fullmatch(authority):
        raise TargetError("has more than a port after the address in brackets")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise TargetError("is no URL, its host or port cannot be read") from None
    if parts.scheme not in _STANDARD_PORTS:
        raise TargetError("must begin with https://")
    if "@" in parts.netloc:
        raise TargetError("must not hold a user or password: the signature tells who sends")
    if "#" in url:
        raise TargetError("must not have a fragment")
    standard = _STANDARD_PORTS[parts.scheme]
    if port is None:
        if parts.netloc.endswith(":"):
            raise TargetError("has a colon without a port")
        port = standard
    if port < _FIRST_FREE_PORT and port != standard:
        raise TargetError(f"port {port} is not for webhooks: use 443 or one from {_FIRST_FREE_PORT} on")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return WebhookTarget(parts.scheme, _host(parts.netloc, parts.hostname or ""), port, path)


def _host(netloc: str, host: str) -> str:
    if netloc.startswith("["):
        try:
            address = IPv6Address(host)
        except ValueError:
            raise TargetError("the address in brackets is no IPv6 address") from None
        if address.scope_id is not None:
            raise TargetError("the address in brackets has a zone")
        return str(address)
    if not _HOST.fullmatch(host):
        raise TargetError("has no host that can be used")
    host = host.removesuffix(".")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise TargetError("write an IPv4 address as four decimal numbers without leading zeros") from None
    return host


def objection(address: Address, allowed: Iterable[Network] = ()) -> str | None:
    """Return why an address must not be connected to, such as "loopback" or "private"; None if it may be.

    Addresses that stand for an IPv4 address (mapped, NAT64) are judged as that one.
    """
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return "link-local"
        if (inner := _embedded_ipv4(address)) is not None:
            return objection(inner, allowed)
    kind = next((kind for kind, networks in _NOT_PUBLIC if _within(address, networks)), None)
    if kind is None and isinstance(address, IPv6Address) and address not in _PUBLIC_V6:
        kind = "reserved"
    if kind is not None and _within(address, allowed) and not _within(address, _NEVER):
        return None
    return kind


def _embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFF_FFFF) if address in _NAT64 else None


def _within(address: Address, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


@dataclass(frozen=True)
class CheckedTarget:
    """A target, and the addresses to connect to, all of which may be connected to."""

    target: WebhookTarget
    addresses: tuple[str, ...]


async def check_target(url: str, resolve: Resolver, allowed: Sequence[Network] = ()) -> CheckedTarget:
    """Parse a URL, resolve its host, and judge each address; plain http is for ``allowed`` networks only.

    Raises TargetError.
    """
    target = parse_target(url)
    try:
        addresses = [ipaddress.ip_address(text) for text in await resolve(target.host, target.port)]
    except (OSError, ValueError):
        addresses = []
    if not addresses:
        raise TargetError("its host cannot be resolved")
    for address in addresses:
        reason = objection(address, allowed)
        if reason is not None:
            raise TargetError(
                f"its host is at an address that is {reason}; whoever runs the broker may allow networks "
                "with SPOTFED_WEBHOOK_ALLOW"
            )
        if target.scheme == "http" and not _allowed(address, allowed):
            raise TargetError("must begin with https://")
    return CheckedTarget(target, tuple(dict.fromkeys(map(str, addresses))))


def _allowed(address: Address, allowed: Sequence[Network]) -> bool:
    inner = _embedded_ipv4(address) if isinstance(address, IPv6Address) else None
    return _within(inner or address, allowed)


class SystemResolver:
    """Resolves hosts as the machine does, in its own threads: a silent name server delays nothing else."""

    def __init__(self, timeout_s: float = 5.0, threads: int = 16):
        self._timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="webhook-names")

    async def __call__(self, host: str, port: int) -> list[str]:
        """Return addresses in the order in which to try them. Raises OSError, also TimeoutError."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._timeout_s):
            return await loop.run_in_executor(self._threads, _addresses, host, port)

    def close(self) -> None:
        """Stop the threads without waiting for them."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _addresses(host: str, port: int) -> list[str]:
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label that is empty or too long
        raise OSError(str(error)) from error
    return [str(address[0]) for _, _, _, _, address in entries]
