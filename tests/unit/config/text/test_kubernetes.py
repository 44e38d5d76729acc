"""References to Secrets and ConfigMaps of Kubernetes ask the API server as Strimzi's providers do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.certificates import authority
from harness.containers.strimzi.secrets import NAMESPACE, SecretServer
from twinlog.config.properties import PropertyEntry
from twinlog.config.text.kubernetes import pod_api
from twinlog.config.text.providers import Providers, build_providers
from twinlog.config.text.values import MissingError

CLASSES = {
    "secrets": "io.strimzi.kafka.KubernetesSecretConfigProvider",
    "maps": "io.strimzi.kafka.KubernetesConfigMapConfigProvider",
}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SecretServer]:
    secrets = {"certs": {"b.crt": "B", "a.crt": "A", "note": "ä"}, "closed": {"password": "hush"}}
    allowed = frozenset({"certs", "gone"})
    with SecretServer(tmp_path, secrets, {"settings": {"topics": "orders.*"}}, allowed) as found:
        for name in ("KUBERNETES_MASTER", "KUBERNETES_NAMESPACE", "KUBERNETES_CERTS_CA_FILE"):
            monkeypatch.delenv(name, raising=False)
        for name, value in found.environment.items():
            monkeypatch.setenv(name, value)
        yield found


def providers(**more: str) -> Providers:
    written = {f"config.providers.{name}.class": kind for name, kind in CLASSES.items()}
    written |= {f"config.providers.{name.replace('__', '.param.')}": value for name, value in more.items()}
    warnings: list[str] = []
    found = build_providers(
        tuple(CLASSES), {key: PropertyEntry(key, value, "f", 1, value) for key, value in written.items()}, warnings
    )
    assert warnings == []
    return found


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        (f"${{secrets:{NAMESPACE}/certs:a.crt}}", "A"),
        ("${secrets:certs:note}", "ä"),
        (f"${{secrets:{NAMESPACE}/certs:*.crt}}", "A\nB"),
        (f"${{maps:{NAMESPACE}/settings:topics}}", "orders.*"),
    ],
)
def test_an_entry_is_read(server: SecretServer, reference: str, value: str) -> None:
    assert providers().resolve(reference) == value


def test_values_of_a_pattern_have_the_separator_that_is_set(server: SecretServer) -> None:
    assert providers(secrets__separator=";").resolve("${secrets:certs:*.crt}") == "A;B"


def test_each_reference_is_read_again(server: SecretServer) -> None:
    known = providers()
    assert known.resolve("${secrets:certs:note}") == "ä"
    server.secrets["certs"]["note"] = "new"
    assert known.resolve("${secrets:certs:note}") == "new"


@pytest.mark.parametrize(
    ("reference", "reason", "way_out"),
    [
        ("${secrets:closed:password}", "answers 403", "a Role with the verb get for the secrets named closed"),
        ("${secrets:other/certs:note}", "answers 403", "to the pod's service account"),
        ("${secrets:gone:a}", "Secret gone in namespace kafka is missing", "a Secret of that name"),
        ("${secrets:certs:c.crt}", "lacks a key 'c.crt'", "a key of that Secret: a.crt, b.crt, note"),
        ("${secrets:certs:*.pem}", "lacks a key '*.pem'", "a key of that Secret"),
        ("${secrets:A/B/C:key}", "'A/B/C' is an invalid path", "NAMESPACE/NAME"),
    ],
)
def test_a_reference_to_nothing_has_a_way_out(server: SecretServer, reference: str, reason: str, way_out: str) -> None:
    with pytest.raises(MissingError) as caught:
        providers().resolve(reference)
    assert reason in str(caught.value)
    assert way_out in caught.value.way_out
    assert "hush" not in str(caught.value)


def test_a_wrong_token_and_a_silent_server_are_named(server: SecretServer, tmp_path: Path) -> None:
    known = providers()
    (tmp_path / "serviceaccount/token").write_text("of another pod")
    with pytest.raises(MissingError, match="answers 401"):
        known.resolve("${secrets:certs:note}")
    (tmp_path / "serviceaccount/token").unlink()
    with pytest.raises(MissingError, match="gives no answer"):
        known.resolve("${secrets:certs:note}")


def test_a_server_of_another_authority_is_refused(
    server: SecretServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "other.crt"
    other.write_text(authority("Another").pem)
    monkeypatch.setenv("KUBERNETES_CERTS_CA_FILE", str(other))
    with pytest.raises(MissingError, match="CERTIFICATE_VERIFY_FAILED"):
        providers().resolve("${secrets:certs:note}")


def test_the_variables_of_a_pod_lead_to_its_server(tmp_path: Path) -> None:
    assert pod_api({}) is None
    token = {"KUBERNETES_AUTH_SERVICEACCOUNT_TOKEN": str(tmp_path / "token")}
    six = pod_api({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443", **token})
    assert six is not None
    assert (six.url, six.namespace, six.authority) == ("https://[fd00::1]:443", "default", tmp_path / "ca.crt")
    (tmp_path / "namespace").write_text("mirrors\n")
    named = pod_api({"KUBERNETES_MASTER": "https://api:6443/", **token})
    assert named is not None
    assert (named.url, named.namespace) == ("https://api:6443", "mirrors")
