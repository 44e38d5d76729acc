"""Logins and certificates with which Kafka's Java clients get in, each written as an operator writes it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from harness.certificates import keytool
from harness.cluster import PLAIN_LOGIN, KafkaCluster
from harness.errors import HarnessError
from harness.jvm.tools import TOPICS, run_tool
from harness.wait import wait_for
from tests.connected_admins import connected_admin
from twinlog.config import load
from twinlog.errors import RefusedError
from twinlog.kafka.net.connections import principal
from twinlog.model.types import Alias
from twinlog.settings.client import ClientSettings

PASSWORD = "pässwört €"
USER = "CN=mm,OU=x=2C"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
MECHANISMS = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
STORE = "store-secret"
LEVEL = "DEFAULT@SECLEVEL=0"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    stores = tmp_path_factory.mktemp("stores")
    listeners = {
        "SCRAM": {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            **{f"{name.lower()}.sasl.jaas.config": f"{SCRAM};" for name in MECHANISMS},
        },
        "WEAK": {
            "security.protocol": "SSL",
            "ssl.keystore.type": "JKS",
            "ssl.keystore.location": str(weak_store(stores)),
            "ssl.keystore.password": STORE,
            "ssl.key.password": STORE,
        },
    }
    with KafkaCluster("logins", users={"mm": PASSWORD}, heap="384m", listeners=listeners) as made:
        admin = AdminClient(made.client_config())
        for mechanism in MECHANISMS.values():
            wanted = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            admin.alter_user_scram_credentials([wanted])[USER].result(60)

        def known() -> bool:
            found: Any = admin.describe_user_scram_credentials([USER])
            with contextlib.suppress(KafkaException):
                return len(found[USER].result(60).scram_credential_infos) == len(MECHANISMS)
            return False

        wait_for(known, 60, "the broker has heard of both logins from its controller")
        yield made


def weak_store(folder: Path) -> Path:
    """A broker's key of 1,024 bits, signed with SHA-1 by the authority whose certificate is in `trust.jks`."""
    store, authority = folder / "broker.jks", folder / "authority.jks"
    common = f"-noprompt -storetype JKS -storepass {STORE}"
    weak = "-keyalg RSA -keysize 1024 -sigalg SHA1withRSA -validity 3650"
    keytool(
        f"-genkeypair -alias ca -dname CN=authority -ext bc:c {weak} {common} -keystore {authority} -keypass {STORE}"
    )
    keytool(f"-genkeypair -alias broker -dname CN=broker {weak} {common} -keystore {store} -keypass {STORE}")
    keytool(f"-certreq -alias broker {common} -keystore {store} -file {folder}/broker.csr")
    keytool(
        f"-gencert -alias ca {common} -keystore {authority} -sigalg SHA1withRSA -ext san=ip:127.0.0.1 "
        f"-infile {folder}/broker.csr -outfile {folder}/broker.cer -rfc"
    )
    keytool(f"-exportcert -alias ca {common} -keystore {authority} -file {folder}/ca.cer -rfc")
    keytool(f"-importcert -alias ca {common} -keystore {store} -file {folder}/ca.cer")
    keytool(f"-importcert -alias broker {common} -keystore {store} -file {folder}/broker.cer")
    keytool(f"-importcert -alias ca {common} -keystore {folder}/trust.jks -file {folder}/ca.cer")
    return store


Client = Callable[..., ClientSettings]


@pytest.fixture
def client(tmp_path: Path) -> Client:
    """The settings with which a flow lists the topics of its source, where the file has these lines for the source."""

    def settings(*lines: str) -> ClientSettings:
        file = tmp_path / "mm2.properties"
        head = ("clusters = a, b", "b.bootstrap.servers = nowhere:1", "a->b.enabled = true")
        file.write_text("\n".join([*head, "emit.heartbeats.enabled = false", *lines]) + "\n", "iso-8859-1")
        return load(file).flows[0].source_admin.client

    return settings


def require_login(settings: ClientSettings) -> None:
    """Raise ClusterError where the cluster does not let this client in."""
    with connected_admin(Alias("a"), settings, 30) as admin:
        assert admin.topics() is not None


def plain(cluster: KafkaCluster, password: str) -> tuple[str, ...]:
    return (
        f"a.bootstrap.servers = {cluster.sasl_bootstrap}",
        "a.security.protocol = SASL_PLAINTEXT",
        "a.sasl.mechanism = PLAIN",
        f'a.sasl.jaas.config = {PLAIN_LOGIN} username="mm" password="{password}";',
    )


@pytest.mark.parametrize(
    ("kind", "reference"), [("File", "${s:FOLDER/secrets.properties:pw}"), ("Directory", "${s:FOLDER:pw}")]
)
def test_a_password_that_is_not_ascii_stands_in_a_file_of_utf8(
    cluster: KafkaCluster, client: Client, tmp_path: Path, kind: str, reference: str
) -> None:
    (tmp_path / "secrets.properties").write_text(f"pw={PASSWORD}\n", "utf-8")
    (tmp_path / "pw").write_text(PASSWORD, "utf-8")
    require_login(
        client(
            "config.providers = s",
            f"config.providers.s.class = org.apache.kafka.common.config.provider.{kind}ConfigProvider",
            *plain(cluster, reference.replace("FOLDER", str(tmp_path))),
        )
    )


@pytest.mark.parametrize(
    "written",
    [
        # The file itself is ISO-8859-1, which has no euro sign; octal numbers of JAAS reach as far.
        "pässwört \\u20ac",
        "p\\u00e4ssw\\u00f6rt \\u20ac",
        "p\\\\344ssw\\\\366rt \\u20ac",
    ],
)
def test_a_password_that_is_not_ascii_stands_in_the_file_itself(
    cluster: KafkaCluster, client: Client, written: str
) -> None:
    require_login(client(*plain(cluster, written)))


def test_another_password_is_refused(cluster: KafkaCluster, client: Client) -> None:
    with pytest.raises(RefusedError, match="the login was refused for User:mm "):
        require_login(client(*plain(cluster, PASSWORD.encode().decode("iso-8859-1")[:3])))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_names_of_users_with_commas_and_equals_signs(cluster: KafkaCluster, client: Client, mechanism: str) -> None:
    password = (
        PASSWORD.encode("ascii", "backslashreplace").decode().replace("\\xe4", "\\u00e4").replace("\\xf6", "\\u00f6")
    )
    lines = (
        f"a.bootstrap.servers = {cluster.listener('SCRAM')}",
        "a.security.protocol = SASL_PLAINTEXT",
        f"a.sasl.mechanism = {mechanism}",
    )
    settings = client(*lines, f'a.sasl.jaas.config = {SCRAM} username="{USER}" password="{password}";')
    require_login(settings)
    assert principal(settings) == f"User:{USER}"
    with pytest.raises(RefusedError, match="the login was refused for User:CN=mm,OU=x=2C "):
        require_login(client(*lines, f'a.sasl.jaas.config = {SCRAM} username="{USER}" password="other";'))


# -- certificates that OpenSSL finds too weak


def weak(cluster: KafkaCluster, *more: str) -> tuple[str, ...]:
    store = Path(cluster_store(cluster)).with_name("trust.jks")
    return (
        f"a.bootstrap.servers = {cluster.listener('WEAK')}",
        "a.security.protocol = SSL",
        f"a.ssl.truststore.location = {store}",
        f"a.ssl.truststore.password = {STORE}",
        *more,
    )


def cluster_store(cluster: KafkaCluster) -> str:
    return cluster._listeners["WEAK"]["ssl.keystore.location"]


def test_a_weak_certificate_is_refused_with_the_way_out(cluster: KafkaCluster, client: Client) -> None:
    with pytest.raises(RefusedError) as raised:
        require_login(client(*weak(cluster)))
    text = str(raised.value)
    assert "its keys or signatures are too weak for OpenSSL here (" in text
    assert f"set ssl.cipher.suites = {LEVEL}" in text


@pytest.mark.parametrize("more", [(), ("a.ssl.enabled.protocols = TLSv1.2",), ("a.ssl.enabled.protocols = TLSv1.3",)])
def test_a_weak_certificate_is_accepted_where_the_file_says_so(
    cluster: KafkaCluster, client: Client, more: tuple[str, ...]
) -> None:
    require_login(client(*weak(cluster, f"a.ssl.cipher.suites = {LEVEL}", *more)))


def test_java_accepts_that_certificate(cluster: KafkaCluster, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    lines = [line.removeprefix("a.") for line in weak(cluster)]
    file.write_text("\n".join(lines))
    run_tool(TOPICS, ["--bootstrap-server", cluster.listener("WEAK"), "--command-config", file, "--list"])
    file.write_text("\n".join(lines[:2]))
    with pytest.raises(HarnessError, match="PKIX path"):
        run_tool(TOPICS, ["--bootstrap-server", cluster.listener("WEAK"), "--command-config", file, "--list"])
