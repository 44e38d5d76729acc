"""Certificates of an authority of one's own, in every form that Java reads: PEM, PKCS12 and JKS."""

from __future__ import annotations

import datetime
import ipaddress
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

from harness.errors import HarnessError
from harness.jvm.java import BRIEF_TOOL

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Certified:
    """A key with its certificate, and those of the authorities above it, nearest first."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    above: tuple[x509.Certificate, ...] = ()

    def issue(
        self,
        name: str,
        hosts: Sequence[str] = (),
        *,
        authority: bool = False,
        until: datetime.timedelta = DAY,
    ) -> Certified:
        """A certificate for `name`, good for `hosts` (names or addresses) and until `until`."""
        return _certified(name, hosts, self, authority=authority, until=until)

    # -- as text

    @property
    def pem(self) -> str:
        """The certificate alone."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def chain_pem(self) -> str:
        """The certificate and those above it, without the one that signed itself."""
        chain = [one for one in (self.certificate, *self.above) if one.issuer != one.subject]
        return "".join(one.public_bytes(Encoding.PEM).decode() for one in chain)

    def key_pem(self, password: str | None = None) -> str:
        """The private key, encrypted where there is a password."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, _locked(password)).decode()

    # -- as files

    def write_pem(self, path: Path, password: str | None = None) -> Path:
        """Key and chain in one file."""
        path.write_text(self.key_pem(password) + self.chain_pem, encoding="ascii")
        return path

    def write_pkcs12(self, path: Path, password: str, alias: str = "client") -> Path:
        """Key and chain as PKCS12."""
        store = pkcs12.serialize_key_and_certificates(
            alias.encode(), self.key, self.certificate, self.above, _locked(password)
        )
        path.write_bytes(store)
        return path

    def write_jks(self, path: Path, password: str, key_password: str | None = None) -> Path:
        """Key and chain as JKS, which has a password for the store and one for the key."""
        between = self.write_pkcs12(path.with_suffix(".between.p12"), password)
        keytool(
            f"-importkeystore -noprompt -srckeystore {between} -srcstoretype PKCS12 -srcstorepass {password} "
            f"-destkeystore {path} -deststoretype JKS -deststorepass {password} "
            f"-srcalias client -destkeypass {key_password or password}"
        )
        between.unlink()
        return path

    def write_trusted_pkcs12(self, path: Path, password: str) -> Path:
        """This certificate as one to trust, as Java marks it."""
        self._import(path, password, "PKCS12")
        return path

    def write_trusted_jks(self, path: Path, password: str) -> Path:
        self._import(path, password, "JKS")
        return path

    def _import(self, path: Path, password: str, kind: str) -> None:
        between = path.with_suffix(".between.pem")
        between.write_text(self.pem, encoding="ascii")
        keytool(
            f"-importcert -noprompt -file {between} -alias authority -keystore {path} -storetype {kind} "
            f"-storepass {password}"
        )
        between.unlink()


def authority(name: str = "Test authority") -> Certified:
    """A certificate authority that signed itself."""
    return _certified(name, (), None, authority=True, until=DAY)


def keytool(arguments: str) -> None:
    """Run Java's keytool; raises HarnessError with what it prints. Blanks stand between arguments only."""
    command = ["keytool", *BRIEF_TOOL, *arguments.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise HarnessError(f"keytool {arguments.split(maxsplit=1)[0]} failed: {done.stdout}{done.stderr}")


def _certified(
    name: str, hosts: Sequence[str], by: Certified | None, *, authority: bool, until: datetime.timedelta
) -> Certified:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "twinlog"), _named(name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if by is None else by.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * DAY)
        .not_valid_after(now + until)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    certificate = builder.sign(key if by is None else by.key, SHA256())
    return Certified(key, certificate, () if by is None else (by.certificate, *by.above))


def _named(name: str) -> x509.NameAttribute[str]:
    return x509.NameAttribute(NameOID.COMMON_NAME, name)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _locked(password: str | None) -> KeySerializationEncryption:
    return NoEncryption() if password is None else BestAvailableEncryption(password.encode())
