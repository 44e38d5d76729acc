"""Settings of TLS and of logins with tokens, out of a file: read with all that they name, or refused with the line."""

from __future__ import annotations

import base64
import json
import pickle
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.certificates import Certified, authority
from tests.unit.config.said import said
from twinlog.config import load
from twinlog.config.load import MirrorConfig
from twinlog.config.security.oauth import BEARER, HANDLERS, UNSECURED
from twinlog.config.security.tls import OPENSSL_NAMES, SUITES
from twinlog.errors import ConfigError
from twinlog.settings.client import ClientSettings
from twinlog.settings.oauth import TokenSettings
from twinlog.settings.tls import TlsSettings, tls_context

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="hush";'

Loads = Callable[..., MirrorConfig]
"""Loads a file in which `a` has these settings too."""


@pytest.fixture
def loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loads:
    monkeypatch.chdir(tmp_path)

    def load_with(*lines: str) -> MirrorConfig:
        head = ["clusters = a, b", "a.bootstrap.servers = a:1", "b.bootstrap.servers = b:1", "a->b.enabled = true"]
        file = Path("f.properties")
        file.write_text("\n".join([*head, "emit.heartbeats.enabled = false", *(f"a.{line}" for line in lines)]))
        return load(file)

    return load_with


@pytest.fixture(scope="module")
def root() -> Certified:
    return authority()


def tls(config: MirrorConfig) -> TlsSettings:
    clients = (config.flows[0].consumer.client, config.flows[0].source_admin.client)
    assert clients[0].tls == clients[1].tls
    assert clients[0].tls is not None
    assert config.flows[0].producer.client.tls is None
    return clients[0].tls


def tokens(config: MirrorConfig) -> TokenSettings:
    found = config.flows[0].consumer.client.tokens
    assert found is not None
    return found


def problems(loads: Loads, *lines: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loads(*lines)
    text = str(caught.value)
    assert "hush" not in text
    return text.splitlines()


def problem(loads: Loads, *lines: str) -> str:
    found = problems(loads, *lines)
    assert len(found) == 1, found
    return found[0]


# -- TLS


def test_the_systems_authorities_are_trusted_by_default(loads: Loads) -> None:
    config = loads("security.protocol = SSL")
    assert tls(config) == TlsSettings()
    assert said(config.warnings) == ()


def test_everything_in_files_travels_and_no_secret_shows(loads: Loads, root: Certified, tmp_path: Path) -> None:
    mirror = root.issue("mirror")
    mirror.write_pem(tmp_path / "key.pem", "hush")
    (tmp_path / "ca.pem").write_text(root.pem)
    config = loads(
        "security.protocol = SASL_SSL",
        "sasl.mechanism = SCRAM-SHA-512",
        f"sasl.jaas.config = {SCRAM}",
        "ssl.truststore.type = PEM",
        "ssl.truststore.location = ca.pem",
        "ssl.keystore.type = PEM",
        "ssl.keystore.location = key.pem",
        "ssl.key.password = hush",
        "ssl.endpoint.identification.algorithm =",
        "ssl.enabled.protocols = TLSv1.3",
    )
    assert tls(config) == TlsSettings(
        root.pem,
        mirror.chain_pem,
        mirror.key_pem(),
        "CN=mirror,O=twinlog",
        check_host=False,
        lowest="TLSv1.3",
    )
    for path in tmp_path.glob("*.pem"):
        path.unlink()
    flow = pickle.loads(pickle.dumps(config.flows[0]))
    assert flow == config.flows[0]
    shown = repr(config)
    assert "hush" not in shown
    assert "PRIVATE" not in shown


def test_stores_are_shipped_once_for_all_clients(loads: Loads, root: Certified) -> None:
    text = root.pem.replace("\n", "\\n")
    config = loads("security.protocol = SSL", "ssl.truststore.type = PEM", f"ssl.truststore.certificates = {text}")
    assert tls(config).authorities == root.pem
    other = loads("security.protocol = SSL")
    assert len(pickle.dumps(config.flows[0])) < len(pickle.dumps(other.flows[0])) + 1.5 * len(root.pem)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["ssl.cipher.suites = TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"], ("TLSv1.2", "TLSv1.2")),
        (["ssl.cipher.suites = TLS_AES_256_GCM_SHA384"], ("TLSv1.3", "TLSv1.3")),
        (
            ["ssl.cipher.suites = TLS_AES_256_GCM_SHA384, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
            ("TLSv1.2", "TLSv1.3"),
        ),
        (["ssl.protocol = TLSv1.2"], ("TLSv1.2", "TLSv1.2")),
        (["ssl.protocol = TLS", "ssl.enabled.protocols = TLSv1.2"], ("TLSv1.2", "TLSv1.2")),
    ],
)
def test_versions_that_are_left(loads: Loads, lines: list[str], expected: tuple[str, str]) -> None:
    found = tls(loads("security.protocol = SSL", *lines))
    assert (found.lowest, found.highest) == expected


@pytest.mark.parametrize(
    ("suites", "ciphers", "level"),
    [
        ("DEFAULT@SECLEVEL=0", (), 0),
        ("DEFAULT@SECLEVEL=1", (), 1),
        (
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384, DEFAULT@SECLEVEL=0",
            ("ECDHE-RSA-AES128-GCM-SHA256",),
            0,
        ),
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", ("ECDHE-RSA-AES128-GCM-SHA256",), None),
    ],
)
def test_openssls_security_level(loads: Loads, suites: str, ciphers: tuple[str, ...], level: int | None) -> None:
    found = tls(loads("security.protocol = SSL", f"ssl.cipher.suites = {suites}"))
    assert (found.ciphers, found.security_level) == (ciphers, level)
    context = tls_context(found)
    assert context.security_level == (2 if level is None else level)
    offered = {str(cipher["name"]) for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"}
    assert offered == set(ciphers) if ciphers else len(offered) > 10


def test_old_versions_are_left_out_with_a_warning(loads: Loads) -> None:
    config = loads("security.protocol = SSL", "ssl.enabled.protocols = TLSv1,TLSv1.1,TLSv1.2")
    assert (tls(config).lowest, tls(config).highest) == ("TLSv1.2", "TLSv1.2")
    assert said(config.warnings) == (
        "f.properties:7: a.ssl.enabled.protocols: versions of TLS before 1.2 are unsupported",
    )


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["ssl.truststore.location = none.jks"], "7: a.ssl.truststore.location: 'none.jks' is unreadable (no such"),
        (["ssl.truststore.password = hush"], "7: a.ssl.truststore.password: without ssl.truststore.location"),
        (
            ["ssl.truststore.type = BKS", "ssl.truststore.location = ca"],
            "type: 'BKS' is invalid; write PEM, PKCS12 or JKS",
        ),
        (
            ["ssl.truststore.type = PEM", "ssl.truststore.location = ca", "ssl.truststore.password = hush"],
            "ssl.truststore.password: beside a store of type PEM",
        ),
        (["ssl.truststore.certificates = x"], "beside the type JKS; write ssl.truststore.type = PEM"),
        (
            ["ssl.truststore.type = PEM", "ssl.truststore.certificates = x", "ssl.truststore.location = ca"],
            "ssl.truststore.certificates: beside a.ssl.truststore.location of line 9; write one of the two",
        ),
        (
            ["ssl.truststore.type = PEM", "ssl.truststore.certificates = x"],
            "ssl.truststore.certificates: a file that lacks certificates",
        ),
        (["ssl.keystore.type = PEM", "ssl.keystore.key = hush"], "without ssl.keystore.certificate.chain"),
        (["ssl.keystore.location = f.properties"], "ssl.keystore.location: the file is an unknown kind of key store"),
        (["ssl.endpoint.identification.algorithm = LDAPS"], "'LDAPS' is invalid; write https, or an empty text"),
        (["ssl.enabled.protocols = TLSv1.1"], "write TLSv1.2, TLSv1.3 or both"),
        (["ssl.enabled.protocols = TLSv1.4"], "'TLSv1.4'"),
        (["ssl.protocol = TLSv1.1"], "write TLSv1.2, TLSv1.3 or TLS"),
        (
            ["ssl.protocol = TLSv1.2", "ssl.enabled.protocols = TLSv1.3"],
            "ssl.protocol: 'TLSv1.2' is invalid; write TLSv1.3",
        ),
        (
            ["ssl.cipher.suites = TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA265"],
            "did you mean TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256?",
        ),
        (
            ["ssl.cipher.suites = ALL:@SECLEVEL=0"],
            "'ALL:@SECLEVEL=0' is invalid; write suites of TLS 1.2 or 1.3 by their",
        ),
        (["ssl.cipher.suites = DEFAULT@SECLEVEL=6"], "in Java, or DEFAULT@SECLEVEL=0 to 5"),
        (
            ["ssl.cipher.suites = TLS_AES_256_GCM_SHA384", "ssl.enabled.protocols = TLSv1.2"],
            "suites of TLS 1.3 alone",
        ),
        (
            ["ssl.cipher.suites = TLS_RSA_WITH_AES_128_GCM_SHA256", "ssl.enabled.protocols = TLSv1.3"],
            "suites of TLS 1.2 alone",
        ),
    ],
)
def test_tls_refused(loads: Loads, lines: list[str], words: str) -> None:
    assert words in problem(loads, "security.protocol = SSL", *lines)


def test_a_wrong_password_names_its_line(loads: Loads, root: Certified, tmp_path: Path) -> None:
    root.issue("mirror").write_pkcs12(tmp_path / "key.p12", "right")
    place = "ssl.keystore.location = key.p12"
    # Kafka's clients drop blanks around passwords.
    assert tls(loads("security.protocol = SSL", place, "ssl.keystore.password = right  ")).certificates is not None
    wrong = problem(loads, "security.protocol = SSL", place, "ssl.keystore.password = hush")
    assert wrong.startswith("f.properties:8: a.ssl.keystore.password: fails to open the file, or the file is damaged")
    lacking = problem(loads, "security.protocol = SSL", place)
    assert lacking.startswith("f.properties:7: a.ssl.keystore.location: ssl.keystore.password missing; give the")


def test_settings_that_a_protocol_does_not_use_are_reported(loads: Loads) -> None:
    config = loads("ssl.truststore.location = none.jks")
    assert said(config.warnings) == (
        "f.properties:6: a.ssl.truststore.location: ignored, because security.protocol is PLAINTEXT",
    )


def test_cipher_names_mean_the_same_to_java_and_openssl() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:@SECLEVEL=0")
    described = {str(cipher["name"]): cipher for cipher in context.get_ciphers()}
    assert set(SUITES) <= set(described)
    for java, name in OPENSSL_NAMES.items():
        how = str(described[name]["description"])
        exchange, _, rest = java.removeprefix("TLS_").partition("_WITH_")
        kind, _, digest = rest.rpartition("_")
        key, _, proof = exchange.partition("_")
        assert f"Au={ {'DSS': 'DSS', 'ECDSA': 'ECDSA', 'RSA': 'RSA', '': 'RSA'}[proof] } " in how, java
        assert f"Kx={ {'ECDHE': 'ECDH', 'DHE': 'DH', 'RSA': 'RSA'}[key] } " in how, java
        size = "256" if "256" in kind or "CHACHA20" in kind else "128"
        mode = "CHACHA20/POLY1305" if "CHACHA20" in kind else "AESGCM" if "GCM" in kind else "AES"
        assert f"Enc={mode}({size})" in how, java
        mac = {"SHA": "SHA1", "SHA256": "SHA256", "SHA384": "SHA384"}[digest] if mode == "AES" else "AEAD"
        assert f"Mac={mac}" in how, java


# -- tokens

LOGIN = ("security.protocol = SASL_SSL", "sasl.mechanism = OAUTHBEARER")
URL = "sasl.oauthbearer.token.endpoint.url = https://id.example/token"
HANDLER = f"sasl.login.callback.handler.class = {HANDLERS[0]}"


def test_client_credentials(loads: Loads) -> None:
    found = tokens(
        loads(
            *LOGIN,
            URL,
            HANDLER,
            f'sasl.jaas.config = {MODULE} extension_logicalCluster="lkc-1";',
            "sasl.oauthbearer.client.credentials.client.id = mirror",
            "sasl.oauthbearer.client.credentials.client.secret = hush",
            "sasl.oauthbearer.scope = kafka",
            "sasl.login.connect.timeout.ms = 1500",
            "sasl.login.refresh.buffer.seconds = 60",
            "sasl.login.refresh.window.factor = 0.7",
        )
    )
    assert found == TokenSettings(
        url="https://id.example/token",
        client_id="mirror",
        client_secret="hush",
        scope="kafka",
        tls=TlsSettings(),
        connect_timeout_ms=1500,
        refresh_buffer_s=60,
        refresh_factor=0.7,
        extensions=(("logicalCluster", "lkc-1"),),
    )
    assert "hush" not in repr(found)


def test_the_older_form_with_everything_in_the_jaas_line(loads: Loads, root: Certified, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(root.pem)
    line = f'{MODULE} clientId="mirror" clientSecret="hush" scope="kafka" ssl.truststore.type=PEM '
    found = tokens(loads(*LOGIN, URL, HANDLER, f'sasl.jaas.config = {line} ssl.truststore.location="ca.pem";'))
    assert (found.client_id, found.client_secret, found.scope) == ("mirror", "hush", "kafka")
    assert found.tls == TlsSettings(root.pem)


def test_unsigned_tokens_are_read(loads: Loads) -> None:
    options = (
        'unsecuredLoginStringClaim_sub="mirror" unsecuredLoginListClaim_scope="|a|b" '
        'unsecuredLoginNumberClaim_level="1" unsecuredLoginLifetimeSeconds="60" unsecuredLoginExtension_traceId="1"'
    )
    config = loads(*LOGIN, f"sasl.jaas.config = {MODULE} {options};")
    found = tokens(config)
    assert json.loads(found.claims) == {"sub": "mirror", "scope": ["a", "b"], "level": 1.0}
    assert (found.lifetime_s, found.subject, found.extensions) == (60, "mirror", (("traceId", "1"),))
    assert (
        tokens(
            loads(*LOGIN, f"sasl.login.callback.handler.class = {UNSECURED}", f"sasl.jaas.config = {MODULE} {options};")
        )
        == found
    )


def test_a_token_out_of_a_file(loads: Loads, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a.b.c")
    url = f"sasl.oauthbearer.token.endpoint.url = file://{tmp_path}/token"
    assert tokens(loads(*LOGIN, url, HANDLER, f"sasl.jaas.config = {MODULE};")).file == f"{tmp_path}/token"
    assert "is unreadable" in problem(loads, *LOGIN, url + "s", HANDLER, f"sasl.jaas.config = {MODULE};")


def test_a_signed_assertion_in_place_of_a_secret(loads: Loads, root: Certified, tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text(root.key_pem())
    (tmp_path / "template.json").write_text('{"header": {"kid": "7"}, "payload": {"tenant": "t"}}')
    found = tokens(
        loads(
            *LOGIN,
            URL,
            f"sasl.jaas.config = {MODULE};",
            f"sasl.oauthbearer.jwt.retriever.class = {BEARER}",
            "sasl.oauthbearer.assertion.algorithm = ES256",
            "sasl.oauthbearer.assertion.claim.iss = mirror",
            "sasl.oauthbearer.assertion.claim.aud = https://id.example",
            "sasl.oauthbearer.assertion.private.key.file = key.pem",
            "sasl.oauthbearer.assertion.template.file = template.json",
        )
    )
    assert found.grant == "jwt_bearer"
    assert found.assertion is not None
    assert json.loads(found.assertion.claims) == {"iss": "mirror", "aud": "https://id.example", "tenant": "t"}
    assert json.loads(found.assertion.header) == {"kid": "7"}
    assert found.assertion.private_key == root.key_pem()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            [f"sasl.jaas.config = {MODULE};"],
            "an unsigned token that lacks a name, or the lack of a token server; write unsec",
        ),
        ([HANDLER, f"sasl.jaas.config = {MODULE};"], "sasl.oauthbearer.token.endpoint.url is missing"),
        (
            [HANDLER, URL + "x", f'sasl.jaas.config = {MODULE} clientId="c";'],
            "client.credentials.client.secret is missing",
        ),
        (
            ["sasl.oauthbearer.token.endpoint.url = ftp://id", f'sasl.jaas.config = {MODULE} clientId="c";'],
            "'ftp://id' is invalid; write http://, https:// or file://",
        ),
        (
            ["sasl.login.callback.handler.class = com.example.Own", f"sasl.jaas.config = {MODULE} a=b;", URL],
            "'com.example.Own' is invalid; write org.apache.kafka",
        ),
        ([f"sasl.jaas.config = {SCRAM}"], "a login module for SCRAM; write a login for OAUTHBEARER"),
        ([f"sasl.jaas.config = {MODULE} unsecuredLoginStringClaim_exp='1';"], "it sets the claim exp"),
        ([f"sasl.jaas.config = {MODULE} unsecuredLoginNumberClaim_x=hush;"], "_x should be a number"),
    ],
)
def test_tokens_refused(loads: Loads, lines: list[str], words: str) -> None:
    assert any(words in found for found in problems(loads, *LOGIN, *lines))


def test_kerberos_is_refused_with_the_way_out(loads: Loads) -> None:
    found = problems(loads, "security.protocol = SASL_SSL", "sasl.mechanism = GSSAPI", f"sasl.jaas.config = {SCRAM}")
    (warning,) = found
    assert warning.startswith(
        "f.properties:7: a.sasl.mechanism: 'GSSAPI': Kerberos is unsupported; write PLAIN, SCRAM-SHA-256, "
    )
    assert "or OAUTHBEARER; the brokers need a listener for it" in warning


def test_the_login_of_amazon_msk_is_refused_with_the_way_out(loads: Loads) -> None:
    aws = "software.amazon.msk.auth.iam.IAMLoginModule required;"
    lines = ("security.protocol = SASL_SSL", "sasl.mechanism = AWS_MSK_IAM", f"sasl.jaas.config = {aws}")
    (found,) = problems(loads, *lines)
    assert "or OAUTHBEARER; on MSK either turn on SASL/SCRAM and use SCRAM-SHA-512 at port 9096, or keep" in found
    assert "name this file by Strimzi's handler as docs/security.md#amazon-msk-with-iam shows" in found


def test_keys_of_brokers_are_accepted_with_a_warning(loads: Loads) -> None:
    config = loads("sasl.oauthbearer.expected.audience = x", "sasl.oauthbearer.jwks.endpoint.url = http://x")
    (warning,) = said(config.warnings)
    assert warning.startswith(
        "f.properties:6: these keys configure brokers and are ignored by a client: a.sasl.oauthbearer.expected."
    )


def test_defaults_are_those_of_the_settings(loads: Loads) -> None:
    found = tokens(loads(*LOGIN, f"sasl.jaas.config = {MODULE} unsecuredLoginStringClaim_sub=u;"))
    assert found == TokenSettings(claims='{"sub": "u"}', subject="u")
    assert ClientSettings(("h:1",)).tokens is None
    assert base64.b64encode(pickle.dumps(found))
