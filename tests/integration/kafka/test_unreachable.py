"""A cluster that cannot be reached is reported, with the reason: its protocol, who was refused, what to look at."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from harness.broker import Broker
from harness.certificates import Certified, authority
from harness.cluster import KafkaCluster
from harness.produce import numbered, produce
from harness.topics import create_topic
from tests.connected_admins import connected_admin
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka import metadata as versions
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.settings.client import ClientSettings
from twinlog.settings.tls import TlsSettings

TRY_S = 1.0
STORE = "store-secret"


class OddlyAdvertised(KafkaCluster):
    """Its listener AWAY advertises a host that nobody knows, its listener DOT, with TLS, a name with a final dot."""

    def _settings(self, broker: Broker) -> dict[str, str]:
        ports = broker.ports
        shown = (
            f"PLAINTEXT://127.0.0.1:{ports.plaintext},AWAY://nowhere.invalid:9092,DOT://localhost.:{ports.more['DOT']}"
        )
        return {**super()._settings(broker), "advertised.listeners": shown}


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OddlyAdvertised, Certified]]:
    home, root = tmp_path_factory.mktemp("odd"), authority()
    dot = {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(root.issue("broker", ["localhost"]).write_pkcs12(home / "broker.p12", STORE)),
        "ssl.keystore.password": STORE,
        "ssl.key.password": STORE,
    }
    listeners = {"AWAY": {"security.protocol": "PLAINTEXT"}, "DOT": dot}
    with OddlyAdvertised("odd", sasl=False, heap="256m", listeners=listeners) as cluster:
        yield cluster, root


NOBODY = "127.0.0.1:1"


def fault(*servers: str, **settings: str) -> ClusterError:
    """What connecting ends with."""
    admin = ClusterAdmin(Alias("west"), ClientSettings(servers, **settings))  # type: ignore[arg-type]
    try:
        with pytest.raises(ClusterError) as raised:
            admin.connect(TRY_S)
    finally:
        admin.close()
    assert "Error: Kafka" not in str(raised.value)
    assert str(raised.value).startswith("cluster west: ")
    return raised.value


def login(password: str = "admin-secret", mechanism: str = "PLAIN") -> dict[str, str]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": "admin",
        "sasl_password": password,
    }


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Something else than a broker; `answer` gets each connection. Yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    try:
                        answer(connection)
                    except OSError:
                        continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(60)


def test_a_port_without_a_listener_is_named() -> None:
    error = fault(NOBODY)
    assert f"{NOBODY}: connection refused" in str(error)
    assert error.retriable


def test_an_unknown_host() -> None:
    assert "no-such-host.invalid:9092: the host name is not known" in str(fault("no-such-host.invalid:9092"))


def test_silence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert f"{address}: no answer in time" in str(fault(address))


def test_a_web_server() -> None:
    with server(lambda one: one.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as address:
        assert f"{address}: the port answers in HTTP" in str(fault(address))


def test_a_port_with_tls() -> None:
    def alert(one: socket.socket) -> None:
        # What OpenSSL and Java answer to anything that is no handshake: a fatal alert of TLS 1.2.
        one.recv(100)
        one.sendall(bytes([0x15, 3, 3, 0, 2, 2, 80]))

    with server(alert) as address:
        text = str(fault(address))
    assert f"{address}: the port uses TLS" in text
    assert "security.protocol is PLAINTEXT" in text


def test_a_port_without_tls(source_cluster: KafkaCluster) -> None:
    text = str(fault(source_cluster.bootstrap, security_protocol="SSL"))
    assert f"{source_cluster.bootstrap}: the port does not use TLS, and security.protocol is SSL" in text


def test_a_port_that_wants_a_login(source_cluster: KafkaCluster) -> None:
    text = str(fault(source_cluster.sasl_bootstrap))
    assert f"{source_cluster.sasl_bootstrap}: it closes the connection" in text
    assert "another security.protocol than PLAINTEXT" in text


def test_a_port_that_wants_no_login(source_cluster: KafkaCluster) -> None:
    text = str(fault(source_cluster.bootstrap, **login()))
    assert "the port does not want a login, and security.protocol is SASL_PLAINTEXT" in text


def test_a_controller(source_cluster: KafkaCluster) -> None:
    port = source_cluster.brokers[1].ports.controller
    assert "is it the port of a controller?" in str(fault(f"127.0.0.1:{port}"))


@pytest.mark.parametrize(("password", "mechanism"), [("wrong", "PLAIN"), ("admin-secret", "SCRAM-SHA-512")])
def test_a_login_that_is_refused(source_cluster: KafkaCluster, password: str, mechanism: str) -> None:
    error = fault(source_cluster.sasl_bootstrap, **login(password, mechanism))
    assert isinstance(error, RefusedError)
    for word in ("the login was refused for User:admin", "check sasl.jaas.config and sasl.mechanism of this cluster"):
        assert word in str(error)
    assert "secret" not in str(error)


def test_one_broker_of_the_list_is_enough(source_cluster: KafkaCluster) -> None:
    with connected_admin(Alias("west"), ClientSettings((NOBODY, source_cluster.bootstrap)), 10) as admin:
        assert admin.topics() is not None


def test_brokers_that_are_too_old(source_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "NEEDED", (versions.RequestVersions(0, "Produce", 99, 99, "9.9"),))
    error = fault(source_cluster.bootstrap)
    assert isinstance(error, RefusedError)
    assert "twinlog needs 99, which Kafka has since 9.9" in str(error)


def test_an_advertised_host_that_nobody_knows_is_named(odd: tuple[OddlyAdvertised, Certified]) -> None:
    cluster, _ = odd
    with (
        connected_admin(Alias("west"), ClientSettings((cluster.listener("AWAY"),)), 10) as admin,
        pytest.raises(ClusterError, match=r"nowhere\.invalid:9092: the host name is not known") as raised,
    ):
        admin.topics()
    assert raised.value.retriable


def test_an_advertised_name_with_a_final_dot_has_the_certificate_of_that_name(
    odd: tuple[OddlyAdvertised, Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, root = odd
    # A name server knows it, the system's own table of hosts does not.
    resolve = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *args: resolve(host.rstrip("."), *args))
    tls = TlsSettings(root.pem)
    settings = ClientSettings((cluster.listener("DOT", "localhost"),), security_protocol="SSL", tls=tls)
    with connected_admin(Alias("west"), settings, 10) as admin:
        topic = create_topic(cluster, "dotted")
        produce(cluster, topic, numbered(3))
        assert admin.offsets([TopicPartition(TopicName(topic), 0)], latest=True) == {(topic, 0): 3}
