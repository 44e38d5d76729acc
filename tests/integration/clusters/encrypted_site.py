"""A cluster behind TLS that a client reaches with a certificate, a password or a token."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from harness.certificates import Certified, authority
from harness.cluster import KafkaCluster
from harness.wait import wait_for

HOST = "127.0.0.1"
STORE, KEY = "store-secret", "key-secret"
REAUTH_MS = 8000
"""Brokers let a connection log in again after a second at the earliest. A client begins after 85 to 95 %
of this, and must be through before it is over, on a busy machine too."""

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
TOKEN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"

Lines = Mapping[str, str]


@dataclass(frozen=True)
class Site:
    """A cluster behind TLS, and what a client of it needs."""

    cluster: KafkaCluster
    root: Certified
    directory: Path

    def mtls(self, **others: str) -> Lines:
        """The listener that wants certificates; a client that has one."""
        return {
            "bootstrap.servers": self.cluster.listener("MTLS"),
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.directory / "ca.pem"),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.directory / "key.pem"),
            "ssl.key.password": KEY,
            **dotted(others),
        }

    def scram(self, password: str = "mirror-secret", **others: str) -> Lines:
        return {
            "bootstrap.servers": self.cluster.listener("SCRAM"),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{SCRAM} username="mirror" password="{password}";',
            "ssl.truststore.location": str(self.directory / "trust.jks"),
            "ssl.truststore.password": STORE,
            **dotted(others),
        }

    def token(self, options: str, **others: str) -> Lines:
        return {
            "bootstrap.servers": self.cluster.listener("TOKEN"),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{TOKEN} {options};",
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(self.directory / "trust.p12"),
            "ssl.truststore.password": STORE,
            **dotted(others),
        }


def dotted(names: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in names.items()}


@contextlib.contextmanager
def encrypted_site(directory: Path) -> Iterator[Site]:
    """A cluster whose brokers want certificates, passwords or tokens; keys and stores lie in `directory`."""
    root = authority()
    broker, mirror = root.issue("broker", [HOST]), root.issue("mirror")
    (directory / "ca.pem").write_text(root.pem)
    mirror.write_pem(directory / "key.pem", KEY)
    mirror.write_pkcs12(directory / "key.p12", STORE)
    mirror.write_jks(directory / "key.jks", STORE, KEY)
    root.write_trusted_pkcs12(directory / "trust.p12", STORE)
    root.write_trusted_jks(directory / "trust.jks", STORE)
    shown = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(broker.write_pkcs12(directory / "broker.p12", STORE)),
        "ssl.keystore.password": STORE,
        "ssl.key.password": STORE,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
    }
    listeners = {
        "MTLS": {**shown, "security.protocol": "SSL", "ssl.client.auth": "required"},
        "SCRAM": {
            **shown,
            "security.protocol": "SASL_SSL",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "scram-sha-512.sasl.jaas.config": f"{SCRAM};",
            "scram-sha-512.connections.max.reauth.ms": str(REAUTH_MS),
        },
        "TOKEN": {
            **shown,
            "security.protocol": "SASL_SSL",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "oauthbearer.sasl.jaas.config": f'{TOKEN} unsecuredLoginStringClaim_sub="broker";',
            # Sessions end with their token.
            "oauthbearer.connections.max.reauth.ms": "3600000",
        },
    }
    with KafkaCluster("encrypted", sasl=False, heap="384m", listeners=listeners) as cluster:
        user = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        upsertion = UserScramCredentialUpsertion("mirror", user, b"mirror-secret")
        admin = AdminClient(cluster.client_config())
        admin.alter_user_scram_credentials([upsertion])["mirror"].result(60)

        def known() -> bool:
            found: Any = admin.describe_user_scram_credentials(["mirror"])
            with contextlib.suppress(KafkaException):
                return bool(found["mirror"].result(60))
            return False

        wait_for(known, 60, "the broker has heard of the login from its controller")
        yield Site(cluster, root, directory)
