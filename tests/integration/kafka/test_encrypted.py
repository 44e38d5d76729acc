"""Brokers behind TLS, with certificates, passwords and tokens: records come through whole, the wrong side is named."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.certificates import authority
from harness.checks.checker import Load, require_clean
from harness.cluster import KafkaCluster
from harness.connect.mm2 import CONNECTORS_ONE_REPLICA
from harness.consume import consume
from harness.produce import numbered, produce
from harness.topics import create_topic, offsets, topics
from harness.wait import wait_for
from tests.connected_admins import connected_admin
from tests.integration.clusters.encrypted_site import HOST, KEY, REAUTH_MS, STORE, Lines, Site, encrypted_site
from tests.integration.clusters.token_server import TokenServer, serving_tokens
from tests.integration.mirror_process import flow_properties
from tests.integration.running import RunTwinlog
from tests.integration.without_spark import FlowWithoutSpark
from tests.unit.config.said import said
from twinlog.config import load
from twinlog.config.security.oauth import HANDLERS
from twinlog.config.strimzi.load import ResourceConfig, load_resource
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.model.types import Alias
from twinlog.settings.client import ClientSettings
from twinlog.settings.flow import FlowSettings

RECORDS = 100_000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with encrypted_site(tmp_path_factory.mktemp("site")) as made:
        yield made


Configured = Callable[..., FlowSettings]


@pytest.fixture
def configured(tmp_path: Path) -> Configured:
    """The flow `north->south` of a file with these lines for its clusters."""

    def settings(north: Lines, south: Lines, topic: str = "none") -> FlowSettings:
        lines = {
            "clusters": "north, south",
            "north->south.enabled": "true",
            "topics": topic,
            "refresh.topics.interval.seconds": "1",
            **CONNECTORS_ONE_REPLICA,
            "offset.storage.replication.factor": "1",
            "emit.heartbeats.enabled": "false",
            "sync.topic.acls.enabled": "false",
            **{f"north.{key}": value for key, value in north.items()},
            **{f"south.{key}": value for key, value in south.items()},
        }
        file = tmp_path / "mm2.properties"
        file.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        config = load(file)
        assert said(config.warnings) == ()
        return config.flows[0]

    return settings


@pytest.fixture
def client(configured: Configured) -> Callable[[Lines], ClientSettings]:
    def settings(lines: Lines) -> ClientSettings:
        return configured(lines, {"bootstrap.servers": "nowhere:1"}).source_admin.client

    return settings


def fault(settings: ClientSettings) -> str:
    admin = ClusterAdmin(Alias("north"), settings)
    try:
        with pytest.raises(ClusterError) as raised:
            admin.connect(3)
    finally:
        admin.close()
    assert isinstance(raised.value, RefusedError), raised.value
    assert not re.search(r"\w+-secret", str(raised.value))
    return str(raised.value)


def listed(settings: ClientSettings) -> bool:
    """Whether a client can ask what topics there are."""
    with connected_admin(Alias("north"), settings, 10) as admin:
        return admin.topics() is not None


def end(cluster: KafkaCluster, topic: str) -> int:
    return offsets(cluster, topic)[1] if topic in topics(cluster) else 0


# -- records


@pytest.mark.scenario
def test_a_renewed_certificate_counts_after_the_restart_that_the_message_asks_for(
    target_cluster: KafkaCluster, run_twinlog: RunTwinlog, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic = new_name("t")
    remote = f"north.{topic}"
    with encrypted_site(tmp_path) as site:
        create_topic(site.cluster, topic)
        produce(site.cluster, topic, numbered(10))
        (tmp_path / "trusted.pem").write_text(site.root.pem)
        properties = flow_properties("north->south", site.cluster, target_cluster, {"topics": topic})
        north = site.mtls(ssl_truststore_location=str(tmp_path / "trusted.pem"))
        properties += "".join(f"north.{key} = {value}\n" for key, value in north.items())
        process = run_twinlog("north, south", properties)
        wait_for(lambda: end(target_cluster, remote) == 10, 100, "the first records are copied")
        # The brokers trust clients of the new authority alone.
        renewed = authority("Renewed")
        (tmp_path / "ca.pem").write_text(renewed.pem)
        renewed.issue("mirror").write_pem(tmp_path / "key.pem", KEY)
        site.cluster.restart()
        process.wait_for_line("does not accept this client's certificate .* counts after a restart")
        produce(site.cluster, topic, numbered(10, start=10))
        if process.alive:
            process.terminate()
        process.restart()
        wait_for(lambda: end(target_cluster, remote) == 20, 100, "the rest is copied")
        assert [int(record.value or b"") for record in consume(target_cluster, remote)] == list(range(20))
        process.kill()


def test_a_hundred_thousand_records_out_of_a_cluster_that_wants_certificates(
    site: Site, target_cluster: KafkaCluster, configured: Configured, new_name: Callable[[str], str]
) -> None:
    topic = create_topic(site.cluster, new_name("t"))
    produce(site.cluster, topic, numbered(RECORDS, size=200, keys=7), codec="lz4")
    # 10 MB in frames of several MB, which TLS cuts into records of 16 KB.
    produce(site.cluster, topic, numbered(1000, size=10_000))
    settings = configured(site.mtls(), target_cluster.java_settings(), topic)
    remote = f"north.{topic}"
    with FlowWithoutSpark(settings):
        wait_for(lambda: end(target_cluster, remote) >= RECORDS + 1000, 60, "everything is copied")
    original, copy = consume(site.cluster, topic), consume(target_cluster, remote)
    assert len(copy) == RECORDS + 1000
    assert [one.content for one in copy] == [one.content for one in original]


@pytest.mark.scenario
def test_sessions_end_while_records_flow_into_a_cluster_with_logins(
    site: Site, source_cluster: KafkaCluster, configured: Configured, new_name: Callable[[str], str]
) -> None:
    topic = create_topic(source_cluster, new_name("t"), 2)
    remote = f"north.{topic}"
    flow = FlowWithoutSpark(configured(source_cluster.java_settings(), site.scram(), topic))
    load = Load(source_cluster, topic, 2, rate=1000)
    with flow:
        load.start()
        wait_for(lambda: end(site.cluster, remote) >= 500, 60, "the first records are copied")
        target = flow.workers[0].copier_thread._copier.target  # type: ignore[union-attr]
        before = list(target._data._conns.values())
        assert before
        time.sleep(2.2 * REAUTH_MS / 1000)
        sent = load.stop()
        wait_for(
            lambda: sum(offsets(site.cluster, remote, part)[1] for part in (0, 1)) >= sent,
            60,
            "what was sent while sessions ended is copied",
        )
        # They logged in again on the way; a connection that did not would have been closed by the broker.
        assert list(target._data._conns.values()) == before
        assert flow.workers[0].errors == []
    require_clean(source_cluster, topic, site.cluster, remote)


# -- who may connect


@pytest.mark.parametrize(("kind", "name"), [("PKCS12", "key.p12"), ("JKS", "key.jks")])
def test_every_form_of_a_key_store(site: Site, client: Callable[[Lines], ClientSettings], kind: str, name: str) -> None:
    stores = {
        "ssl_keystore_type": kind,
        "ssl_keystore_location": str(site.directory / name),
        "ssl_keystore_password": STORE,
        "ssl_key_password": KEY if kind == "JKS" else STORE,
    }
    assert listed(client(site.mtls(**stores)))


def test_keys_as_text(site: Site, client: Callable[[Lines], ClientSettings]) -> None:
    mirror = site.root.issue("mirror")
    text = {
        "ssl.truststore.certificates": site.root.pem.replace("\n", "\\n"),
        "ssl.keystore.key": mirror.key_pem().replace("\n", " "),
        "ssl.keystore.certificate.chain": mirror.chain_pem.replace("\n", " "),
    }
    left_out = ("ssl.truststore.location", "ssl.keystore.location", "ssl.key.password")
    lines = {key: value for key, value in site.mtls().items() if key not in left_out}
    assert listed(client({**lines, **text}))


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_versions_and_ciphers(site: Site, client: Callable[[Lines], ClientSettings], protocol: str) -> None:
    suites = {"TLSv1.2": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLSv1.3": "TLS_AES_256_GCM_SHA384"}[protocol]
    assert listed(client(site.mtls(ssl_enabled_protocols=protocol, ssl_cipher_suites=suites)))


def test_a_host_that_the_certificate_does_not_name(site: Site, client: Callable[[Lines], ClientSettings]) -> None:
    elsewhere = {"bootstrap_servers": site.cluster.listener("MTLS", "localhost")}
    text = fault(client(site.mtls(**elsewhere)))
    assert text.startswith("cluster north: localhost:")
    assert "its certificate is not for localhost" in text
    assert listed(client(site.mtls(**elsewhere, ssl_endpoint_identification_algorithm="")))


def test_an_untrusted_authority_is_refused(
    site: Site, client: Callable[[Lines], ClientSettings], tmp_path: Path
) -> None:
    (tmp_path / "other.pem").write_text(authority("Another").pem)
    assert "its certificate is not trusted" in fault(
        client(site.mtls(ssl_truststore_location=str(tmp_path / "other.pem")))
    )


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_a_client_without_a_certificate(site: Site, client: Callable[[Lines], ClientSettings], protocol: str) -> None:
    stores = ("ssl.keystore.type", "ssl.keystore.location", "ssl.key.password")
    lines = {key: value for key, value in site.mtls(ssl_enabled_protocols=protocol).items() if key not in stores}
    assert "it wants a certificate of its clients" in fault(client(lines))


def test_an_unknown_client_certificate_is_refused(
    site: Site, client: Callable[[Lines], ClientSettings], tmp_path: Path
) -> None:
    authority("Another").issue("mirror").write_pem(tmp_path / "stranger.pem", KEY)
    text = fault(client(site.mtls(ssl_keystore_location=str(tmp_path / "stranger.pem"))))
    assert "it does not accept this client's certificate" in text


def test_a_wrong_password(site: Site, client: Callable[[Lines], ClientSettings]) -> None:
    text = fault(client(site.scram("another")))
    assert "the login was refused for User:mirror" in text


def test_a_port_without_tls(site: Site, client: Callable[[Lines], ClientSettings]) -> None:
    admin = ClusterAdmin(Alias("north"), client(site.mtls(bootstrap_servers=site.cluster.bootstrap)))
    with pytest.raises(ClusterError, match=r"the port does not use TLS, and security\.protocol is SSL"):
        admin.connect(3)
    admin.close()


# -- tokens


def test_tokens_of_our_own_making_end_and_are_replaced(site: Site, client: Callable[[Lines], ClientSettings]) -> None:
    settings = client(site.token('unsecuredLoginStringClaim_sub="mirror" unsecuredLoginLifetimeSeconds="2"'))
    with connected_admin(Alias("north"), settings, 60) as admin:
        first = token_of(admin)
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            assert admin.topics() is not None
            time.sleep(0.1)
        wait_for(lambda: token_of(admin) != first, 60, "another token serves")


def token_of(admin: ClusterAdmin) -> str:
    source: Any = admin.client._control.config["sasl_oauth_token_provider"]
    return str(source.token())


@pytest.fixture
def token_server() -> Iterator[TokenServer]:
    with serving_tokens() as server:
        yield server


def by_server(site: Site, url: str, secret: str = "client-secret") -> Lines:
    return site.token(
        "",
        sasl_login_callback_handler_class=HANDLERS[0],
        sasl_oauthbearer_token_endpoint_url=url,
        sasl_oauthbearer_client_credentials_client_id="mirror",
        sasl_oauthbearer_client_credentials_client_secret=secret,
        sasl_oauthbearer_scope="kafka",
    )


def test_a_token_server(site: Site, client: Callable[[Lines], ClientSettings], token_server: TokenServer) -> None:
    token_server.failures[:] = [503]
    settings = client(by_server(site, token_server.url))
    assert listed(settings)
    assert token_server.asked == 2 * [{"grant_type": ["client_credentials"], "scope": ["kafka"]}]
    # Another client of the process with the same login.
    assert listed(settings)
    assert len(token_server.asked) == 2


def test_a_token_server_that_refuses(
    site: Site, client: Callable[[Lines], ClientSettings], token_server: TokenServer
) -> None:
    text = fault(client(by_server(site, token_server.url, "wrong-secret")))
    assert f"the token server {token_server.url} answers 401 Unauthorized (invalid_client, who are you?)" in text
    assert len(token_server.asked) == 1


def test_a_token_server_that_is_not_there(site: Site, client: Callable[[Lines], ClientSettings]) -> None:
    settings = client({**by_server(site, f"http://{HOST}:1/token"), "sasl.login.retry.backoff.max.ms": "200"})
    admin = ClusterAdmin(Alias("north"), settings)

    def reported() -> bool:
        with pytest.raises(ClusterError) as raised:
            admin.connect(1)
        assert raised.value.retriable
        return f"the token server http://{HOST}:1/token does not answer" in str(raised.value)

    # On a busy machine the time may be over before an attempt gets as far as that.
    with contextlib.closing(admin):
        wait_for(reported, 60, "the token server is named")


# -- as Strimzi's resource says it

RESOURCE = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {{name: mirror}}
spec:
  connectCluster: west
  clusters:
    - alias: east
      bootstrapServers: {source}
      tls: {{trustedCertificates: [{{secretName: ca, pattern: "*.crt"}}]}}
      authentication: {login}
    - alias: west
      bootstrapServers: {target}
      tls: {{trustedCertificates: [{{secretName: ca, certificate: ca.crt}}]}}
      authentication: {certificate}
  mirrors: [{{sourceCluster: east, targetCluster: west, sourceConnector: {{}}}}]
"""
CERTIFICATE = "{type: tls, certificateAndKey: {secretName: user, certificate: user.crt, key: user.key}}"


def resource(site: Site, folder: Path, login: str, listener: str) -> ResourceConfig:
    """A resource whose source is behind `listener`, with its Secrets in files."""
    mirror = site.root.issue("mirror")
    for name, text in {
        "ca/ca.crt": site.root.pem,
        "user/user.crt": mirror.chain_pem,
        "user/user.key": mirror.key_pem(),
        "token/secret": "client-secret\n",
        "token/refresh": "again-secret\n",
    }.items():
        path = folder / "secrets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    addresses = {"source": site.cluster.listener(listener), "target": site.cluster.listener("MTLS")}
    path = folder / "mirror.yaml"
    path.write_text(RESOURCE.format(login=login, certificate=CERTIFICATE, **addresses))
    return load_resource(path, folder / "secrets")


def test_a_resource_shows_certificates_on_both_sides(site: Site, tmp_path: Path) -> None:
    config = resource(site, tmp_path, CERTIFICATE, "MTLS")
    assert listed(config.worker.settings.client)
    flow = config.flows[0].settings
    for settings in (flow.consumer.client, flow.producer.client, flow.source_admin.client, flow.target_admin.client):
        assert listed(settings)


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        (
            "username: u, passwordSecret: {secretName: token, password: refresh}, scope: kafka",
            {"grant_type": ["password"], "username": ["u"], "password": ["again-secret"], "scope": ["kafka"]},
        ),
        (
            "refreshToken: {secretName: token, key: refresh}, audience: copies",
            {"grant_type": ["refresh_token"], "refresh_token": ["again-secret"], "client_id": ["mirror"]}
            | {"audience": ["copies"]},
        ),
    ],
    ids=["password", "refresh-token"],
)
def test_a_resource_logs_in_with_tokens(
    site: Site, tmp_path: Path, token_server: TokenServer, fields: str, asked: dict[str, list[str]]
) -> None:
    client = f"clientId: mirror, clientSecret: {{secretName: token, key: secret}}, tokenEndpointUri: {token_server.url}"
    config = resource(site, tmp_path, f"{{type: oauth, {client}, {fields}}}", "TOKEN")
    assert listed(config.flows[0].settings.consumer.client)
    assert token_server.asked == [asked]
