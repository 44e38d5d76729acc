"""Key stores and trust stores of every form come to the same PEM; a wrong one is refused in words."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from harness.certificates import Certified, authority
from twinlog.config.security import stores
from twinlog.config.security.stores import (
    Identity,
    StoreError,
    StoreType,
    identity,
    pem_certificates,
    pem_identity,
    trusted_certificates,
)

PASSWORD, KEY_PASSWORD = "store-secret", "key-secret"


@dataclass(frozen=True)
class Files:
    """Stores of one authority and one client whose certificate an intermediate authority signed."""

    root: Certified
    client: Certified
    directory: Path

    def read(self, name: str) -> bytes:
        return (self.directory / name).read_bytes()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    directory = tmp_path_factory.mktemp("stores")
    root = authority()
    client = root.issue("between", authority=True).issue("mirror")
    client.write_pem(directory / "key.pem")
    client.write_pem(directory / "locked.pem", KEY_PASSWORD)
    client.write_pkcs12(directory / "key.p12", PASSWORD)
    client.write_jks(directory / "key.jks", PASSWORD, KEY_PASSWORD)
    (directory / "trust.pem").write_text("# whom to trust\n" + root.pem + client.pem)
    root.write_trusted_pkcs12(directory / "trust.p12", PASSWORD)
    root.write_trusted_jks(directory / "trust.jks", PASSWORD)
    return Files(root, client, directory)


def names(pem: str) -> list[str]:
    return [one.subject.rfc4514_string() for one in x509.load_pem_x509_certificates(pem.encode())]


def refused(call: Callable[[], object]) -> StoreError:
    with pytest.raises(StoreError) as caught:
        call()
    for secret in (PASSWORD, KEY_PASSWORD, "wrong-secret"):
        assert secret not in str(caught.value)
    return caught.value


CHAIN = ["CN=mirror,O=twinlog", "CN=between,O=twinlog"]


@pytest.mark.parametrize(
    ("name", "kind", "password", "key_password"),
    [
        ("key.pem", "PEM", None, None),
        ("locked.pem", "PEM", None, KEY_PASSWORD),
        ("key.p12", "PKCS12", PASSWORD, None),
        ("key.p12", "JKS", PASSWORD, None),
        ("key.jks", "JKS", PASSWORD, KEY_PASSWORD),
        ("key.jks", "PKCS12", PASSWORD, KEY_PASSWORD),
    ],
)
def test_a_key_and_its_chain(
    files: Files, name: str, kind: StoreType, password: str | None, key_password: str | None
) -> None:
    found = identity(files.read(name), kind, password, key_password)
    assert found.private_key == files.client.key_pem()
    # A file that holds the root as well may send it, which harms nobody.
    assert names(found.certificates)[:2] == CHAIN
    assert found.subject == CHAIN[0]
    assert "PRIVATE KEY" not in repr(found)


@pytest.mark.parametrize(
    ("name", "kind", "password"),
    [
        ("trust.pem", "PEM", None),
        ("trust.p12", "PKCS12", PASSWORD),
        ("trust.p12", "JKS", PASSWORD),
        ("trust.jks", "JKS", PASSWORD),
        ("trust.jks", "PKCS12", PASSWORD),
        # As Java does: certificates are no secret, and without a password nothing is verified.
        ("trust.jks", "JKS", None),
    ],
)
def test_whom_to_trust(files: Files, name: str, kind: StoreType, password: str | None) -> None:
    assert files.root.pem in trusted_certificates(files.read(name), kind, password)


def test_each_certificate_counts_once_and_leaves_count_too(files: Files) -> None:
    found = trusted_certificates(files.read("trust.pem") * 2, "PEM", None)
    assert names(found) == ["CN=Test authority,O=twinlog", CHAIN[0]]


def relocked(store: bytes, password: str) -> bytes:
    """A JKS file with another password: its digest is all that depends on it."""
    body = store[:-20]
    return body + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def test_a_password_that_the_locale_cannot_spell(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    password = "  geheïm € 🔑 and \\ % $(x) ' \"  "
    monkeypatch.setenv("LC_ALL", "C")
    # Each is read anew, not remembered.
    stores._trusted.cache_clear()
    stores._identity.cache_clear()
    trusted = relocked(files.read("trust.jks"), password)
    assert files.root.pem in trusted_certificates(trusted, "JKS", password)
    assert identity(relocked(files.read("key.jks"), password), "JKS", password, KEY_PASSWORD).subject == CHAIN[0]
    assert refused(lambda: trusted_certificates(trusted, "JKS", password + "x")).setting == "password"


def test_text_that_lost_its_line_breaks_in_a_properties_file(files: Files) -> None:
    key, chain = (text.replace("\n", " ") for text in (files.client.key_pem(), files.client.chain_pem))
    found = pem_identity(key, chain, None, "key", "certificate.chain")
    assert found == Identity(files.client.chain_pem, files.client.key_pem(), CHAIN[0])
    joined = files.root.pem.replace("\n", "")
    assert pem_certificates(joined, "certificates") == files.root.pem


@pytest.mark.parametrize(
    ("name", "kind", "password", "key_password", "setting", "words"),
    [
        ("key.p12", "PKCS12", "wrong-secret", None, "password", "fails to open the file"),
        ("key.p12", "PKCS12", None, None, "password", "missing"),
        ("key.jks", "JKS", "wrong-secret", KEY_PASSWORD, "password", "fails to open the file"),
        ("key.jks", "JKS", PASSWORD, "wrong-secret", "key.password", "fails to open the private key"),
        ("key.jks", "JKS", PASSWORD, None, "key.password", "key.password"),
        ("key.jks", "JKS", None, None, "password", "missing"),
        ("locked.pem", "PEM", None, "wrong-secret", "key.password", "fails to open the private key"),
        ("locked.pem", "PEM", None, None, "key.password", "missing"),
        ("key.pem", "PKCS12", PASSWORD, None, "location", "PEM text"),
        ("key.p12", "PEM", None, None, "location", "differs from PEM text"),
        ("trust.pem", "PEM", None, None, "location", "lacks a private key"),
        ("trust.p12", "PKCS12", PASSWORD, None, "location", "lacks a private key"),
        ("trust.jks", "JKS", PASSWORD, None, "location", "lacks a private key"),
    ],
)
def test_a_key_store_that_cannot_be_used(
    files: Files,
    name: str,
    kind: StoreType,
    password: str | None,
    key_password: str | None,
    setting: str,
    words: str,
) -> None:
    error = refused(lambda: identity(files.read(name), kind, password, key_password))
    assert error.setting == setting
    assert words in str(error) or words == setting


def test_a_trust_store_that_cannot_be_used(files: Files) -> None:
    assert (
        refused(lambda: trusted_certificates(files.read("trust.p12"), "PKCS12", "wrong-secret")).setting == "password"
    )
    assert refused(lambda: trusted_certificates(files.read("trust.jks"), "JKS", "wrong-secret")).setting == "password"
    assert refused(lambda: trusted_certificates(files.read("trust.p12"), "PKCS12", None)).setting == "password"
    assert refused(lambda: trusted_certificates(b"nonsense", "JKS", PASSWORD)).setting == "location"
    assert refused(lambda: trusted_certificates(b"nonsense", "PEM", None)).found == "a file that lacks certificates"


def test_an_old_form_of_an_encrypted_key(files: Files) -> None:
    old = files.client.key.private_bytes(
        Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(KEY_PASSWORD.encode())
    ).decode()
    assert "DEK-Info" in old
    found = identity((old + files.client.chain_pem).encode(), "PEM", None, KEY_PASSWORD)
    assert found.private_key == files.client.key_pem()


def test_a_key_of_another_certificate(files: Files) -> None:
    stranger = authority("Stranger")
    error = refused(lambda: pem_identity(stranger.key_pem(), files.client.chain_pem, None, "key", "certificate.chain"))
    assert error.setting == "key"
    assert "lacks its certificate" in error.found


def test_without_keytool_the_error_names_the_way_out(
    files: Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    # Another password, so that what was read before is not remembered.
    error = refused(lambda: trusted_certificates(files.read("trust.jks"), "JKS", "unasked"))
    assert "keytool" in error.found
    assert "PKCS12" in error.expected
