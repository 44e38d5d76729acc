"""Names of users in SCRAM's first message, as RFC 5802 and Kafka's ScramFormatter have them."""

from __future__ import annotations

import pytest
from kafka.net.sasl.plain import SaslMechanismPlain
from kafka.net.sasl.scram import SaslMechanismScram

from twinlog.clock import SYSTEM
from twinlog.kafka.net.client_config import connection_options, principal
from twinlog.settings.flow import ClientSettings

USER = "CN=mm,OU=x=2C"


def client(mechanism: str) -> ClientSettings:
    return ClientSettings(("a:1",), "SASL_SSL", sasl_mechanism=mechanism, sasl_username=USER, sasl_password="pässwört")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_what_delimits_fields_is_escaped(mechanism: str) -> None:
    message = SaslMechanismScram(**connection_options(client(mechanism), SYSTEM)).auth_bytes()
    assert message.startswith(b"n,,n=CN=3Dmm=2COU=3Dx=3D2C,r=")
    assert principal(client(mechanism)) == f"User:{USER}"


def test_plain_sends_the_name_as_it_is() -> None:
    message = SaslMechanismPlain(**connection_options(client("PLAIN"), SYSTEM)).auth_bytes()
    assert message == f"{USER}\0{USER}\0pässwört".encode()
