"""Authorities, certificates and a server that speaks TLS for one that does not, for tests."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True)
class Pair:
    """Files of a certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates; ``file`` is its own."""

    def __init__(self, directory: Path, name: str):
        self._directory, self._key = directory, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(
            digital_signature=False, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip
        made = (
            _certificate(self._name, self._name, self._key.public_key(), 3650)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.file = directory / f"{name}.pem"
        self.file.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def pair(self, host: str, days: int = 365) -> Pair:
        """For a server of that name, or a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = (
            _certificate(self._name, subject, key.public_key(), days)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(issuer, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        files = Pair(self._directory / f"{host}-{days}.pem", self._directory / f"{host}-{days}.key")
        files.cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        files.key.chmod(0o600)
        return files


def _certificate(
    issuer: x509.Name, subject: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + timedelta(days=days))
    )


@contextmanager
def terminating(socket_path: str, pair: Pair, client_ca: Path | None = None) -> Iterator[int]:
    """A port at which TLS is spoken for the server at a Unix socket. ``client_ca``: only to its clients."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # refused handshakes are what is tested
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    proxy = _Proxy(socket_path)
    port = asyncio.run_coroutine_threadsafe(proxy.start(context), loop).result(60)
    try:
        yield port
    finally:
        asyncio.run_coroutine_threadsafe(proxy.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


class _Proxy:
    def __init__(self, socket_path: str):
        self._path = socket_path
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self, context: ssl.SSLContext) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for end in self._open:
            end.transport.abort()
        await asyncio.sleep(0.05)  # what was aborted is closed in the loop's next rounds

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_unix_connection(self._path)
        self._open |= {writer, there_writer}
        pipes = [
            asyncio.create_task(_pipe(reader, there_writer)),
            asyncio.create_task(_pipe(there_reader, writer)),
        ]
        await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
        for pipe in pipes:
            pipe.cancel()
        await asyncio.gather(*pipes, return_exceptions=True)
        for end in (writer, there_writer):
            end.transport.abort()
        self._open -= {writer, there_writer}


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
