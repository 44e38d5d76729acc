"""Logins of Strimzi's resource: passwords, certificates and tokens out of Secrets."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.unit.config.said import said
from tests.unit.config.strimzi.resources import HERE, OLD, V1, problems, read, secret_files
from twinlog.config.strimzi.connection import Secrets, variable_of
from twinlog.config.strimzi.load import load_resource
from twinlog.errors import ConfigError
from twinlog.settings.oauth import AssertionSettings, TokenSettings


def test_secrets_that_are_missing_name_where_they_were_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_resource(HERE / "migration.yaml", tmp_path)
    first = str(caught.value.problems[0])
    assert ":13: spec.clusters[0].tls.trustedCertificates" in first
    assert f"file {tmp_path}/origin-cluster-ca-cert/ca.crt is missing" in first
    assert "TWINLOG_SECRET_ORIGIN_CLUSTER_CA_CERT_CA_CRT" in first
    assert len(caught.value.problems) == 6


LOGIN = """\
        authentication:
          type: {}
          username: mirror
          passwordSecret:
            secretName: mirror
            password: password
"""


@pytest.mark.parametrize(
    ("kind", "mechanism"), [("plain", "PLAIN"), ("scram-sha-256", "SCRAM-SHA-256"), ("scram-sha-512", "SCRAM-SHA-512")]
)
def test_passwords_come_from_secrets(tmp_path: Path, kind: str, mechanism: str) -> None:
    password = 'a "quoted\\ one'
    secrets = secret_files(tmp_path / "secrets", mirror__password=f"{password}\n")
    text = V1.replace(
        "        bootstrapServers: east:9092\n", "        bootstrapServers: east:9092\n" + LOGIN.format(kind)
    )
    config = read(tmp_path, text, secrets)
    client = config.flows[0].settings.consumer.client
    assert (client.security_protocol, client.sasl_mechanism) == ("SASL_PLAINTEXT", mechanism)
    assert (client.sasl_username, client.sasl_password) == ("mirror", password)
    # What a worker keeps in its topic names the Secret, and not what it holds.
    submitted = config.resource.connectors[0].config["source.cluster.sasl.jaas.config"]
    assert "default/mirror:password" in submitted
    assert password not in submitted


def test_secrets_stand_in_the_same_file_or_in_the_environment(tmp_path: Path) -> None:
    text = V1.replace(
        "        bootstrapServers: east:9092\n", "        bootstrapServers: east:9092\n" + LOGIN.format("plain")
    )
    coded = base64.b64encode(b"geheim").decode()
    beside = f"---\napiVersion: v1\nkind: Secret\nmetadata: {{name: mirror}}\ndata: {{password: {coded}}}\n"
    assert read(tmp_path, text + beside).flows[0].settings.consumer.client.sasl_password == "geheim"
    assert variable_of("my-user", "ca.crt") == "TWINLOG_SECRET_MY_USER_CA_CRT"
    assert Secrets(environment={"TWINLOG_SECRET_MY_USER_CA_CRT": "x\n"}).read("my-user", "ca.crt") == "x"


OLD_LOGIN = """\
      authentication:
        type: oauth
"""


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ("refreshToken: {secretName: s, key: k}", "the key 'k' of s"),
        ("accessToken: {secretName: s, key: missing}", "the key 'missing' of s"),
        ("username: u", "oauth.password.grant.username, but the password is missing"),
        ("maxTokenExpirySeconds: 59", "oauth.max.token.expiry.seconds below 60; write at least 60"),
        ("clientId: x", "sasl.oauthbearer.token.endpoint.url is missing; write the URL of a token endpoint"),
    ],
)
def test_token_logins_that_there_are_not(tmp_path: Path, fields: str, found: str) -> None:
    where = "      bootstrapServers: east:9092\n"
    text = OLD.replace(where, f"{where}{OLD_LOGIN}        {fields}\n")
    assert any(found in line for line in problems(tmp_path, text)), problems(tmp_path, text)


def test_a_token_out_of_a_secret(tmp_path: Path) -> None:
    secrets = secret_files(tmp_path / "secrets", tokens__mine="abc")
    where = "      bootstrapServers: east:9092\n"
    text = OLD.replace(where, f"{where}{OLD_LOGIN}        accessToken: {{secretName: tokens, key: mine}}\n")
    client = read(tmp_path, text, secrets).flows[0].settings.consumer.client
    assert client.tokens is not None
    assert client.tokens.file == str(secrets / "tokens" / "mine")


def test_a_token_out_of_a_document(tmp_path: Path) -> None:
    """Where no file has it, it is what the reference stands for."""
    where = "      bootstrapServers: east:9092\n"
    text = OLD.replace(where, f"{where}{OLD_LOGIN}        accessToken: {{secretName: tokens, key: mine}}\n")
    document = "---\nkind: Secret\nmetadata: {name: tokens}\nstringData: {mine: abc}\n"
    config = read(tmp_path, f"{text}{document}")
    tokens = config.flows[0].settings.consumer.client.tokens
    assert tokens is not None
    assert (tokens.text, tokens.may_be_opaque) == ("abc", True)
    assert "abc" not in str(config.resource.connectors[0].config)


def old_tokens(folder: Path, login: str, **secrets: str) -> TokenSettings:
    """How tokens are obtained for a login of type oauth."""
    where = "      bootstrapServers: east:9092\n"
    fields = "".join(f"        {line}\n" for line in ("tokenEndpointUri: http://tokens/t", *login.splitlines()))
    files = secret_files(folder / "secrets", **secrets)
    found = read(folder, OLD.replace(where, f"{where}{OLD_LOGIN}{fields}"), files).flows[0].settings.consumer.client
    assert found.tokens is not None
    return found.tokens


def test_a_token_login_by_a_refresh_token(tmp_path: Path) -> None:
    login = "clientId: m\nrefreshToken: {secretName: s, key: refresh}\naudience: kafka\nmaxTokenExpirySeconds: 600"
    tokens = old_tokens(tmp_path, login, s__refresh="again")
    assert (tokens.grant, tokens.client_id, tokens.client_secret) == ("refresh_token", "m", None)
    assert tokens.refresh_token_file == str(tmp_path / "secrets" / "s" / "refresh")
    assert (tokens.audience, tokens.longest_s) == ("kafka", 600)


def test_a_token_login_by_a_password(tmp_path: Path) -> None:
    login = "clientId: m\nusername: u\npasswordSecret: {secretName: s, password: p}\nscope: x"
    tokens = old_tokens(tmp_path, login, s__p='ge"heim')
    assert (tokens.grant, tokens.username, tokens.password, tokens.scope) == ("password", "u", 'ge"heim', "x")
    assert 'ge"heim' not in repr(tokens)


def test_a_token_login_takes_a_secret_before_an_assertion(tmp_path: Path) -> None:
    both = "clientId: m\nclientSecret: {secretName: s, key: k}\nclientAssertion: {secretName: s, key: a}\n"
    tokens = old_tokens(tmp_path, f"{both}grantType: special", s__k="one", s__a="a.b.c")
    assert (tokens.assertion, tokens.client_secret, tokens.grant_type) == (None, "one", "special")
    assert tokens.encode_login
    alone = "clientId: m\nclientAssertion: {secretName: s, key: a}\nclientAssertionType: saml"
    tokens = old_tokens(tmp_path, alone, s__a="a.b.c")
    assert tokens.assertion == AssertionSettings(file=str(tmp_path / "secrets" / "s" / "a"))
    assert tokens.assertion_type == "saml"


def test_a_login_of_ones_own(tmp_path: Path) -> None:
    """What v1 has in the place of oauth: Strimzi's own handler, told in a JAAS line."""
    secrets = secret_files(tmp_path / "secrets", mirror__secret="geheim")
    line = (
        'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required oauth.client.id="m" '
        'oauth.token.endpoint.uri="https://tokens/t" oauth.ssl.endpoint.identification.algorithm="" '
        'oauth.client.secret="${strimzisecrets:default/mirror:secret}" oauth.sasl.extension.tenant="x";'
    )
    login = (
        "        authentication:\n          type: custom\n          sasl: true\n          config:\n"
        "            sasl.mechanism: OAUTHBEARER\n            ssl.truststore.type: PEM\n"
        "            sasl.login.callback.handler.class: io.strimzi.kafka.oauth.client."
        f"JaasClientOauthLoginCallbackHandler\n            sasl.jaas.config: >-\n              {line}\n"
    )
    where = "        bootstrapServers: east:9092\n"
    config = read(tmp_path, V1.replace(where, f"{where}        tls: {{}}\n{login}"), secrets)
    client = config.flows[0].settings.consumer.client
    assert (client.security_protocol, client.sasl_mechanism) == ("SASL_SSL", "OAUTHBEARER")
    assert client.tokens is not None
    assert (client.tokens.client_id, client.tokens.client_secret) == ("m", "geheim")
    assert client.tokens.extensions == (("tenant", "x"),)
    assert client.tokens.tls is not None
    # Only sasl. and ssl.keystore. may stand there.
    assert "authentication.config.ssl.truststore.type" in said(config.warnings)[0]


def test_a_token_login_as_strimzi_writes_it(tmp_path: Path) -> None:
    login = (
        "        authentication:\n          type: oauth\n          tokenEndpointUri: http://tokens/t\n"
        "          clientId: mirror\n          clientSecret: {secretName: mirror, key: secret}\n"
        "          scope: copy\n          connectTimeoutSeconds: 7\n"
    )
    text = OLD.replace(
        "      bootstrapServers: east:9092\n",
        "      bootstrapServers: east:9092\n"
        + login.replace("        ", "      ", 1).replace("\n          ", "\n        "),
    )
    secrets = secret_files(tmp_path / "secrets", mirror__secret="geheim")
    tokens = read(tmp_path, text, secrets).flows[0].settings.consumer.client.tokens
    assert tokens is not None
    assert (tokens.url, tokens.client_id, tokens.client_secret) == ("http://tokens/t", "mirror", "geheim")
    assert (tokens.scope, tokens.connect_timeout_ms) == ("copy", 7000)
