"""Where a webhook may go: every form in which an address that is not public can be written or resolved to."""

import asyncio
import ipaddress
from collections.abc import Sequence

import pytest

from broker.webhooks.targets import (
    CheckedTarget,
    SystemResolver,
    TargetError,
    check_target,
    objection,
    parse_target,
)

PUBLIC = [
    "1.1.1.1", "8.8.8.8", "93.184.216.34", "172.15.255.255", "172.32.0.1", "100.63.255.255", "100.128.0.1",
    "192.167.255.255", "169.253.1.1", "198.17.255.255", "198.20.0.1", "223.255.255.255", "11.0.0.1",
    "2606:4700:4700::1111", "2a00:1450:4001:81b::200e", "2001:4860:4860::8888", "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
]  # fmt: skip
NOT_PUBLIC = {
    "0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "::": "unspecified",
    "127.0.0.1": "loopback", "127.255.255.254": "loopback", "::1": "loopback",
    "10.0.0.1": "private", "10.255.255.255": "private", "172.16.0.1": "private", "172.31.255.255": "private",
    "192.168.0.1": "private", "fc00::1": "private", "fd12:3456::1": "private", "fec0::1": "private",
    "100.64.0.1": "shared (carrier-grade NAT)", "100.127.255.255": "shared (carrier-grade NAT)",
    "100.100.100.200": "shared (carrier-grade NAT)",
    "169.254.1.1": "link-local", "169.254.169.254": "link-local", "169.254.170.2": "link-local",
    "fe80::1": "link-local", "fe80::1%eth0": "link-local", "febf::1": "link-local",
    "224.0.0.1": "multicast", "239.255.255.255": "multicast", "ff02::1": "multicast",
    "168.63.129.16": "a cloud's metadata service", "fd00:ec2::254": "private", "fd20:ce::254": "private",
    "192.0.2.1": "for documentation or benchmarks only", "198.18.0.1": "for documentation or benchmarks only",
    "198.19.255.255": "for documentation or benchmarks only",
    "198.51.100.7": "for documentation or benchmarks only",
    "203.0.113.7": "for documentation or benchmarks only",
    "2001:db8::1": "for documentation or benchmarks only", "3fff::1": "for documentation or benchmarks only",
    "192.0.0.192": "reserved", "240.0.0.1": "reserved", "255.255.255.255": "reserved",
    "2001:2::1": "reserved", "2001:10::1": "reserved", "4000::1": "reserved", "100::1": "reserved",
    "192.88.99.1": "a tunnel to IPv4",
    "2002:7f00:1::": "a tunnel to IPv4", "2002:0808:0808::": "a tunnel to IPv4",
    "2001:0:53aa:64c:0:0:80ff:fffe": "a tunnel to IPv4", "64:ff9b:1::7f00:1": "a tunnel to IPv4",
    "::ffff:127.0.0.1": "loopback", "::ffff:10.0.0.1": "private", "::ffff:169.254.169.254": "link-local",
    "::127.0.0.1": "reserved", "64:ff9b::127.0.0.1": "loopback", "64:ff9b::a00:1": "private",
    "64:ff9b::a9fe:a9fe": "link-local",
}  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_fine(address: str) -> None:
    assert objection(ipaddress.ip_address(address)) is None


@pytest.mark.parametrize(("address", "what"), NOT_PUBLIC.items())
def test_others_are_refused_with_a_reason(address: str, what: str) -> None:
    assert objection(ipaddress.ip_address(address)) == what


def test_nothing_is_public_here_that_python_calls_private() -> None:
    for network in map(ipaddress.ip_network, ("0.0.0.0/0", "::/0")):
        step = network.num_addresses // 4099
        for number in range(4099):
            address = network[number * step]
            if not address.is_global or address.is_multicast:
                assert objection(address) is not None, address


ALLOWED = tuple(map(ipaddress.ip_network, ("10.1.0.0/16", "127.0.0.0/8", "fd00::/8")))


@pytest.mark.parametrize(
    ("address", "fine"),
    [
        ("10.1.2.3", True), ("10.2.0.1", False), ("127.0.0.1", True), ("::ffff:10.1.2.3", True),
        ("64:ff9b::10.2.0.1", False), ("fd12::1", True), ("fd00:ec2::254", False), ("fe80::1", False),
    ],
)  # fmt: skip
def test_networks_are_allowed_by_name(address: str, fine: bool) -> None:
    assert (objection(ipaddress.ip_address(address), ALLOWED) is None) is fine


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "::ffff:169.254.169.254", "168.63.129.16", "100.100.100.200", "0.0.0.0", "ff02::1"],
)
def test_metadata_services_and_the_like_are_never_allowed(address: str) -> None:
    everything = tuple(map(ipaddress.ip_network, ("0.0.0.0/0", "::/0")))
    assert objection(ipaddress.ip_address(address), everything) is not None


@pytest.mark.parametrize(
    ("url", "host", "port", "path", "authority"),
    [
        ("https://a.example.com", "a.example.com", 443, "/", "a.example.com"),
        ("https://A.Example.COM:443/x?y=1", "a.example.com", 443, "/x?y=1", "a.example.com"),
        ("https://a.example.com.:8443/x", "a.example.com", 8443, "/x", "a.example.com:8443"),
        ("https://[2606:4700::1111]:8443/?q", "2606:4700::1111", 8443, "/?q", "[2606:4700::1111]:8443"),
        ("https://1.1.1.1/a%20b", "1.1.1.1", 443, "/a%20b", "1.1.1.1"),
        ("http://localhost:9000/", "localhost", 9000, "/", "localhost:9000"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example", 443, "/", "xn--bcher-kva.example"),
    ],
)
def test_urls_are_taken_apart(url: str, host: str, port: int, path: str, authority: str) -> None:
    target = parse_target(url)
    assert (target.host, target.port, target.path, target.authority) == (host, port, path, authority)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "https"),
        ("a.example.com/hook", "https"),
        ("ftp://a.example.com/", "https"),
        ("file:///etc/passwd", "https"),
        ("gopher://a.example.com:6379/_INFO", "https"),
        ("https:///path", "host"),
        ("https://", "host"),
        ("https://user@a.example.com/", "user"),
        ("https://user:word@a.example.com/", "user"),
        ("https://a.example.com@127.0.0.1/", "user"),
        ("https://@127.0.0.1/", "user"),
        ("https://a.example.com/#x", "fragment"),
        ("https://a.example.com#@127.0.0.1/", "fragment"),
        ("https://a.example.com\\@127.0.0.1/", "ASCII"),
        ("https://a.example.com\t/", "ASCII"),
        ("https://a.exam\nple.com/", "ASCII"),
        ("https://a.example.com/ x", "ASCII"),
        ("https://a.example.com/\r\nX-Header: 1", "ASCII"),
        ("https://bücher.example/", "ASCII"),
        ("https://①②⑦.⓪.⓪.①/", "ASCII"),
        ("https://127。0。0。1/", "ASCII"),
        ("https://2130706433/", "four decimal"),
        ("https://0x7f000001/", "four decimal"),
        ("https://0x7f.0.0.1/", "four decimal"),
        ("https://0177.0.0.1/", "four decimal"),
        ("https://017700000001/", "four decimal"),
        ("https://127.1/", "four decimal"),
        ("https://127.0.1/", "four decimal"),
        ("https://1.2.3.4.5/", "four decimal"),
        ("https://256.1.1.1/", "four decimal"),
        ("https://0x/", "four decimal"),
        ("https://example.0x1./", "four decimal"),
        ("https://[::1/", "URL"),
        ("https://[v1.x]/", "URL|IPv6"),
        ("https://[fe80::1%25eth0]/", "zone"),
        ("https://[2606:4700::1111].example.com/", "brackets"),
        ("https://[2606:4700::1111]8443/", "brackets"),
        ("https://[127.0.0.1]/", "URL|IPv6"),
        ("https://%6c%6fcalhost/", "host"),
        ("https://a..example.com/", "host"),
        ("https://.example.com/", "host"),
        ("https://-a.example.com/", "host"),
        (f"https://{'a' * 64}.example.com/", "host"),
        ("https://a.example.com:0/", "port"),
        ("https://a.example.com:22/", "port"),
        ("https://a.example.com:25/", "port"),
        ("https://a.example.com:80/", "port"),
        ("https://a.example.com:99999/", "port"),
        ("https://a.example.com:-1/", "port"),
        ("https://a.example.com:/", "port"),
        ("https://a.example.com:x/", "port"),
        ("https://a.example.com/" + "x" * 2048, "2048"),
    ],
)
def test_urls_that_cannot_be_used(url: str, why: str) -> None:
    with pytest.raises(TargetError, match=why):
        parse_target(url)


class Names:
    """Resolves names as told: each time with the next answer, the last one for ever."""

    def __init__(self, **answers: Sequence[Sequence[str]]):
        self.answers = {name.replace("_", "."): list(some) for name, some in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self.answers:
            raise OSError("no such name")
        some = self.answers[host]
        return some.pop(0) if len(some) > 1 else some[0]


def checked(
    url: str, names: Names, allowed: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network] = ()
) -> CheckedTarget:
    return asyncio.run(check_target(url, names, allowed))


NAMES: dict[str, list[list[str]]] = {
    "good_example": [["1.1.1.1", "2606:4700::1111", "1.1.1.1"]],
    "127-0-0-1_nip_io": [["127.0.0.1"]],
    "mixed_example": [["1.1.1.1", "10.0.0.1"]],
    "six_example": [["1.1.1.1", "::1"]],
    "mapped_example": [["::ffff:169.254.169.254"]],
    "zoned_example": [["fe80::1%2"]],
    "localhost": [["127.0.0.1", "::1"]],
    "metadata_google_internal": [["169.254.169.254"]],
    "empty_example": [[]],
    "odd_example": [["no address"]],
    "inside_example": [["10.1.0.9"]],
    "both_example": [["10.1.0.9", "1.1.1.1"]],
}


def test_every_address_of_a_name_is_judged() -> None:
    names = Names(**NAMES)
    assert checked("https://good.example/x", names).addresses == ("1.1.1.1", "2606:4700::1111")
    assert names.asked == ["good.example"]  # once
    for name in ("127-0-0-1.nip.io", "mixed.example", "six.example", "mapped.example", "zoned.example",
                 "localhost", "localhost.", "LOCALHOST", "metadata.google.internal",
                 "metadata.google.internal.", "inside.example"):  # fmt: skip
        with pytest.raises(TargetError, match="is at an address that is") as raised:
            checked(f"https://{name}/", Names(**NAMES))
        for address in ("127.0.0.1", "10.", "169.254", "::"):
            assert address not in str(raised.value)  # what our names resolve to is nobody's business
    for name in ("unknown.example", "empty.example", "odd.example"):
        with pytest.raises(TargetError, match="cannot be resolved"):
            checked(f"https://{name}/", Names(**NAMES))


def test_plain_http_only_where_the_network_is_allowed() -> None:
    assert checked("http://inside.example:8000/", Names(**NAMES), ALLOWED).addresses == ("10.1.0.9",)
    assert checked("http://inside.example/", Names(**NAMES), ALLOWED).target.port == 80
    for name in ("good.example", "both.example"):
        with pytest.raises(TargetError, match="https"):
            checked(f"http://{name}/", Names(**NAMES), ALLOWED)
    assert checked("https://both.example/", Names(**NAMES), ALLOWED).addresses == ("10.1.0.9", "1.1.1.1")


def test_a_name_that_changes_its_address_is_judged_each_time() -> None:
    names = Names(rebinding_example=[["1.1.1.1"], ["127.0.0.1"]])
    assert checked("https://rebinding.example/", names).addresses == ("1.1.1.1",)
    with pytest.raises(TargetError, match="loopback"):
        checked("https://rebinding.example/", names)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_machine_resolves_addresses_to_themselves(host: str) -> None:
    resolver = SystemResolver()
    assert asyncio.run(resolver(host, 80)) == [host]
    resolver.close()


def test_a_name_server_that_is_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    ended = threading.Event()
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: ended.wait(60))
    resolver = SystemResolver(timeout_s=0.02)
    with pytest.raises(TargetError, match="cannot be resolved"):
        asyncio.run(check_target("https://silent.example/", resolver))
    ended.set()
    resolver.close()
