"""A handshake that comes to nothing is reported in words with the way out, and ends what no retry can fix.

The other side is Python's `ssl` here; `tests/integration/kafka/test_encrypted.py` has real brokers.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from harness.certificates import Certified, authority
from harness.wait import wait_for
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.auth.refusal import LoginRefusedError
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.net.transport import TlsTransport
from twinlog.model.types import Alias
from twinlog.settings.client import ClientSettings
from twinlog.settings.tls import LEVEL_0, TlsSettings, tls_context

HOST = "127.0.0.1"
PAST = -datetime.timedelta(days=1)


@pytest.fixture(scope="module")
def root() -> Certified:
    return authority()


@pytest.fixture(scope="module")
def broker(root: Certified) -> Certified:
    return root.issue("broker", [HOST])


def server_context(directory: Path, shown: Certified, *, clients: Certified | None = None) -> ssl.SSLContext:
    """What a broker with this certificate speaks with; with `clients` it wants certificates that it signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.write_pem(directory / "broker.pem"))
    if clients is not None:
        context.load_verify_locations(cadata=clients.pem)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@contextlib.contextmanager
def serving(context: ssl.SSLContext) -> Iterator[str]:
    """Accepts connections, shakes hands and then answers as a web server does; yields its address."""
    with socket.create_server((HOST, 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                connection.settimeout(5)
                with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as one:
                    one.recv(1000)
                    one.sendall(b"HTTP/1.1 400 Bad Request")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"{HOST}:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(60)


HANDS_SHAKEN = "the port answers in HTTP"


def fault(address: str, tls: TlsSettings, within_s: float = 3.0) -> ClusterError:
    admin = ClusterAdmin(Alias("west"), ClientSettings((address,), "SSL", tls=tls))
    try:
        with pytest.raises(ClusterError) as raised:
            admin.connect(within_s)
    finally:
        admin.close()
    return raised.value


def refused(address: str, tls: TlsSettings) -> str:
    error = fault(address, tls)
    assert isinstance(error, RefusedError), error
    text = str(error)
    assert text.startswith(f"cluster west: {HOST}:"), text
    return text


def test_an_unknown_authority(tmp_path: Path, root: Certified, broker: Certified) -> None:
    with serving(server_context(tmp_path, broker)) as address:
        text = refused(address, TlsSettings(authority("Another").pem))
        assert "its certificate is not trusted" in text
        assert "ssl.truststore.location" in text
        assert "not trusted" in refused(address, TlsSettings())


def test_a_name_that_the_certificate_does_not_hold(tmp_path: Path, root: Certified) -> None:
    shown = root.issue("broker", ["broker.example"])
    with serving(server_context(tmp_path, shown)) as address:
        text = refused(address, TlsSettings(root.pem))
        assert f"its certificate is not for {HOST}" in text
        assert "ssl.endpoint.identification.algorithm" in text
        assert HANDS_SHAKEN in str(fault(address, TlsSettings(root.pem, check_host=False), 0.3))


def test_a_certificate_that_has_expired(tmp_path: Path, root: Certified) -> None:
    with serving(server_context(tmp_path, root.issue("broker", [HOST], until=PAST))) as address:
        assert "its certificate has expired" in refused(address, TlsSettings(root.pem))


def test_a_key_that_openssl_finds_too_short(tmp_path: Path, root: Certified) -> None:
    key = rsa.generate_private_key(65537, 1024)
    begins = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder(root.certificate.subject, x509.Name([]), key.public_key(), 7)
        .not_valid_before(begins)
        .not_valid_after(begins + datetime.timedelta(days=9))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]), critical=True)
        .sign(root.key, SHA256())
    )
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + made.public_bytes(Encoding.PEM)
    (tmp_path / "weak.pem").write_bytes(text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(LEVEL_0)
    context.load_cert_chain(tmp_path / "weak.pem")
    with serving(context) as address:
        words = refused(address, TlsSettings(root.pem))
        assert "too weak for OpenSSL here (EE certificate key too weak)" in words
        assert f"set ssl.cipher.suites = {LEVEL_0}" in words
        assert HANDS_SHAKEN in str(fault(address, TlsSettings(root.pem, security_level=0), 0.3))


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_client_that_shows_no_certificate(tmp_path: Path, root: Certified, broker: Certified, version: str) -> None:
    context = server_context(tmp_path, broker, clients=root)
    tls = TlsSettings(root.pem, lowest=version, highest=version)  # type: ignore[arg-type]
    with serving(context) as address:
        assert "ssl.keystore.location" in refused(address, tls) or version == "TLSv1.2"


def test_an_unknown_client_certificate_is_refused_by_the_broker(
    tmp_path: Path, root: Certified, broker: Certified
) -> None:
    stranger = authority("Another").issue("mirror")
    tls = TlsSettings(root.pem, stranger.chain_pem, stranger.key_pem())
    with serving(server_context(tmp_path, broker, clients=root)) as address:
        text = refused(address, tls)
    assert "it does not accept this client's certificate (unknown ca)" in text
    assert "a store that was renewed since then counts after a restart" in text


def test_no_version_in_common(tmp_path: Path, root: Certified, broker: Certified) -> None:
    context = server_context(tmp_path, broker)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with serving(context) as address:
        text = refused(address, TlsSettings(root.pem, lowest="TLSv1.3"))
    assert "no version of TLS or no cipher in common (protocol version)" in text
    assert "ssl.enabled.protocols" in text


def test_no_cipher_in_common(tmp_path: Path, root: Certified, broker: Certified) -> None:
    context = server_context(tmp_path, broker)
    context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    tls = TlsSettings(root.pem, highest="TLSv1.2", ciphers=("ECDHE-ECDSA-AES128-GCM-SHA256",))
    with serving(context) as address:
        assert "no cipher in common" in refused(address, tls)


def test_a_suite_of_tls_1_3_that_is_not_allowed(tmp_path: Path, root: Certified, broker: Certified) -> None:
    tls = TlsSettings(root.pem, lowest="TLSv1.3", suites=("TLS_AES_128_CCM_SHA256",))
    with serving(server_context(tmp_path, broker)) as address:
        assert "which ssl.cipher.suites does not list" in refused(address, tls)


def test_an_intermediate_authority_is_trusted_by_itself(tmp_path: Path, root: Certified) -> None:
    between = root.issue("between", authority=True)
    shown = between.issue("broker", [HOST])
    with serving(server_context(tmp_path, shown)) as address:
        assert HANDS_SHAKEN in str(fault(address, TlsSettings(between.pem), 0.3))


class Protocol:
    """Notes what a transport brings, and why it ended."""

    _sensors = None

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.ends: list[BaseException | None] = []

    def data_received(self, frame: bytes) -> None:
        self.frames.append(bytes(frame))

    def connection_lost(self, error: BaseException | None) -> None:
        self.ends.append(error)


@pytest.mark.parametrize("worked", [True, False])
def test_a_connection_that_worked_is_not_refused(
    tmp_path: Path, root: Certified, broker: Certified, worked: bool
) -> None:
    context = server_context(tmp_path, broker)
    heard = threading.Event()

    def serve(listening: socket.socket) -> None:
        one = context.wrap_socket(listening.accept()[0], server_side=True)
        one.recv(1)
        if worked:
            one.sendall(b"\0\0\0\4good")
            heard.wait(60)
        with socket.socket(fileno=one.detach()) as plain:
            plain.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    loop, protocol = Loop(), Protocol()
    loop.net.start()
    with socket.create_server((HOST, 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        sock = socket.create_connection(listening.getsockname())
        sock.setblocking(False)
        transport = TlsTransport(loop.net, sock, host=HOST, ssl_context=tls_context(TlsSettings(root.pem)))
        transport._prepare_frames(1000, lambda: True)

        async def talk() -> None:
            await transport.handshake()
            transport.set_protocol(protocol)
            transport.resume_reading()
            transport.write([b"x"])

        loop.run(talk)
        if worked:
            wait_for(lambda: protocol.frames == [b"good"], 60, "an answer")
        heard.set()
        wait_for(lambda: protocol.ends, 60, "the end of the connection")
        thread.join(60)
    loop.net.stop(timeout_ms=60_000)
    loop.close()
    assert isinstance(protocol.ends[0], LoginRefusedError) is not worked


def test_no_key_stays_on_a_disk(root: Certified, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mirror = root.issue("mirror")
    settings = TlsSettings(root.pem, mirror.chain_pem, mirror.key_pem())
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert tls_context(settings).shows_certificate
    monkeypatch.delattr("os.memfd_create", raising=False)
    assert tls_context(replace(settings, subject="another")).shows_certificate
    assert list(tmp_path.iterdir()) == []
