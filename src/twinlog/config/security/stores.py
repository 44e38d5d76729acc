"""Key stores and trust stores in the forms that Java reads: PEM, PKCS12 and JKS, each to PEM text.

As in Java since version 9, a store that is called JKS may be PKCS12 and the other way round (JEP 229); the bytes
decide. PKCS12 and PEM are read by `cryptography`. JKS is a form of Java alone, and `keytool`, which comes with the Java
that Spark needs, is the only reader of it that is still kept up.

Passwords are handed over through pipes; files are their owner's alone and gone afterwards.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from twinlog.config.security.store_error import Setting, StoreError, StoreType
from twinlog.config.text.values import ValueRefusedError
from twinlog.process.scratch import Scratch

TIMEOUT_S = 60.0
_BRIEF = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")
"""It ends before a better compiler or more threads for garbage would pay."""

_ENTRY = re.compile(r"^Alias name: (.+)$(?:\n(?!Alias name:).*)*?\nEntry type: PrivateKeyEntry$", re.MULTILINE)
_CONVERT = "keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12"


class KeytoolError(ValueRefusedError):
    """A store is unreadable. `password` and `key` report that the password of the store, or of its key, is wrong or
    missing."""

    def __init__(self, found: str, expected: str, *, password: bool = False, key: bool = False) -> None:
        super().__init__(found, expected)
        self.password = password
        self.key = key


def certificates_of_jks(content: bytes, password: str | None) -> str:
    """Every certificate of the store, as PEM text among other text. If the password is missing the verification of the
    store is skipped."""
    with Scratch() as work:
        return _listed(_written(content, work), password)


def key_of_jks(content: bytes, password: str | None, key_password: str | None) -> tuple[bytes, str]:
    """The first key of the store with its certificates, as PKCS12 with the password that is returned too."""
    if password is None:
        raise KeytoolError("missing", "the password of that file", password=True)
    with Scratch() as work:
        store = _written(content, work)
        entry = _ENTRY.search(_listed(store, password))
        if entry is None:
            raise KeytoolError("a file that lacks a private key", "a key store with the client's key")
        made = work / "key.p12"
        own = secrets.token_urlsafe(24)
        output = _run(
            *(
                f"-importkeystore -noprompt -srckeystore {store} -srcstoretype JKS "
                f"-destkeystore {made} -deststoretype PKCS12 -srcalias"
            ).split(),
            entry[1],
            passwords={"-srcstorepass": password, "-srckeypass": key_password or password, "-deststorepass": own},
        )
        if "Cannot recover key" in output or "UnrecoverableKeyException" in output:
            if key_password is None:
                raise KeytoolError(
                    "missing", "the password of the private key, which differs from the file's password", key=True
                )
            raise KeytoolError("fails to open the private key", "the password of that key", key=True)
        if not made.exists():
            raise KeytoolError(f"keytool fails to read the file: {_last_line(output)}", "a key store in JKS or PKCS12")
        return made.read_bytes(), own


def _listed(store: Path, password: str | None) -> str:
    passwords = {} if password is None else {"-storepass": password}
    output = _run("-list", "-rfc", "-keystore", str(store), "-storetype", "JKS", passwords=passwords)
    if "password was incorrect" in output:
        raise KeytoolError(
            "fails to open the file, or the file is damaged",
            "the password that the file was written with",
            password=True,
        )
    if "keytool error" in output:
        raise KeytoolError(f"keytool fails to read the file: {_last_line(output)}", "a key store in JKS or PKCS12")
    return output


def _written(content: bytes, work: Path) -> Path:
    # keytool needs a readable file; its content is the content that the caller read, even if the original changes
    # meanwhile.
    store = work / "store.jks"
    store.write_bytes(content)
    return store


def _run(*arguments: str, passwords: dict[str, str]) -> str:
    """The output of keytool; `passwords` are by the option that asks for them."""
    environment = {name: value for name, value in os.environ.items() if name not in {"JAVA_TOOL_OPTIONS"}}
    # The output is searched for English words, so keytool gets that language. Java decodes its environment and its
    # arguments by the locale, which may lack characters of a password, but files by file.encoding.
    command = [_keytool(), *_BRIEF, "-J-Duser.language=en", "-J-Dfile.encoding=UTF-8", *arguments]
    with contextlib.ExitStack() as pipes:
        ends = [pipes.enter_context(_pipe(password)) for password in passwords.values()]
        for option, end in zip(passwords, ends, strict=True):
            command += [f"{option}:file", f"/dev/fd/{end}"]
        try:
            done = subprocess.run(
                command,
                env=environment,
                pass_fds=ends,
                # keytool asks for a missing password; an empty line lets it continue.
                input="\n",
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
                timeout=TIMEOUT_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise KeytoolError(
                f"keytool fails to run ({type(error).__name__})", f"a Java that works, or PKCS12: {_CONVERT}"
            ) from None
    return done.stdout + done.stderr


@contextlib.contextmanager
def _pipe(password: str) -> Iterator[int]:
    """The read end of a pipe that contains a single line."""
    out, into = os.pipe()
    try:
        with open(into, "wb") as written:
            written.write(f"{password}\n".encode())
        yield out
    finally:
        os.close(out)


def _keytool() -> str:
    """keytool of the Java that Spark would start: the Java of JAVA_HOME, or else the Java on the path."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java")
    places = [Path(home, "bin") if home else None, Path(java).resolve().parent if java else None]
    for place in places:
        if place is not None and (place / "keytool").is_file():
            return str(place / "keytool")
    found = shutil.which("keytool")
    if found is None:
        raise KeytoolError(
            "a store in Java's own form, and Java's keytool, which reads it, is missing here",
            f"JAVA_HOME to be set, or PKCS12: {_CONVERT}",
        )
    return found


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["its output is empty"]
    return next((line for line in lines if "keytool error" in line), lines[-1])


_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_DER_SEQUENCE = b"\x30"
_PEM_BLOCK = re.compile(r"-+BEGIN\s+([^-]+?)\s*-+(.*?)-+END\s+\1\s*-+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Identity:
    """Our certificate with its chain, and its decrypted private key, as PEM text."""

    certificates: str
    private_key: str = field(repr=False)
    subject: str


def trusted_certificates(content: bytes, kind: StoreType, password: str | None) -> str:
    """Every certificate in the trust store `content`, as PEM text. Raises StoreError."""
    found = _trusted(content, kind, password)
    if isinstance(found, StoreError):
        raise found
    return found


def identity(content: bytes, kind: StoreType, password: str | None, key_password: str | None) -> Identity:
    """The key in the key store `content`, with its certificates. Raises StoreError.

    `key_password` None means that the store's own opens the key too.
    """
    found = _identity(content, kind, password, key_password)
    if isinstance(found, StoreError):
        raise found
    return found


def pem_certificates(text: str, setting: Setting) -> str:
    """The certificates in `text`, which may have lost its line breaks in a properties file. Raises StoreError."""
    return _pem(_parsed_certificates(text, setting))


def pem_identity(
    key: str, chain: str, key_password: str | None, key_setting: Setting, chain_setting: Setting
) -> Identity:
    """The private key in `key` with the certificates in `chain`. Raises StoreError."""
    certificates = _parsed_certificates(chain, chain_setting)
    blocks = [block for block in _blocks(key) if "PRIVATE KEY" in block]
    if not blocks:
        raise StoreError(
            key_setting, "a file that lacks a private key", "a private key as PEM text, in PKCS#8 as a rule"
        )
    secret = None if key_password is None else key_password.encode()
    try:
        private = load_pem_private_key(blocks[0].encode(), secret)
    except TypeError:
        if secret is None:
            raise StoreError("key.password", "missing", "the password of the private key, which is encrypted") from None
        private = _unlocked(blocks[0], key_setting)
    except (ValueError, UnsupportedAlgorithm):
        if secret is not None:
            raise StoreError("key.password", "fails to open the private key", "the password of that key") from None
        raise StoreError(key_setting, "an unreadable private key", "a private key in PKCS#8, as PEM text") from None
    return _matched(private, certificates, key_setting)


# The outcome of reading is kept, because every client of a cluster asks for it, and keytool takes half a second.


@lru_cache(maxsize=32)
def _trusted(content: bytes, kind: StoreType, password: str | None) -> str | StoreError:
    try:
        if kind == "PEM":
            return _pem(_parsed_certificates(_decoded(content), "location"))
        if content.startswith(_JKS_MAGIC):
            return _pem(_parsed_certificates(certificates_of_jks(content, password), "location"))
        store = _opened(content, password)
        own = [] if store.cert is None else [store.cert.certificate]
        certificates = own + [one.certificate for one in store.additional_certs]
        if not certificates:
            lacking = (
                ("a file that lacks certificates") if password else "a file whose certificates all need a password"
            )
            raise StoreError("location", lacking, "a trust store with the certificates of whom to trust")
        return _pem(certificates)
    except KeytoolError as error:
        return StoreError("password" if error.password else "location", error.found, error.expected)
    except StoreError as error:
        return error


@lru_cache(maxsize=32)
def _identity(content: bytes, kind: StoreType, password: str | None, key_password: str | None) -> Identity | StoreError:
    try:
        if kind == "PEM":
            text = _decoded(content)
            return pem_identity(text, text, key_password, "location", "location")
        if content.startswith(_JKS_MAGIC):
            content, password = key_of_jks(content, password, key_password)
        store = _opened(content, password)
        if store.key is None or store.cert is None:
            raise StoreError(
                "location", "a file that lacks a private key with a certificate", "a key store with the client's key"
            )
        others = [one.certificate for one in store.additional_certs]
        return _matched(store.key, [store.cert.certificate, *others], "location")
    except KeytoolError as error:
        wrong: Setting = "key.password" if error.key else "password" if error.password else "location"
        return StoreError(wrong, error.found, error.expected)
    except StoreError as error:
        return error


def _opened(content: bytes, password: str | None) -> pkcs12.PKCS12KeyAndCertificates:
    if not content.startswith(_DER_SEQUENCE):
        if b"-BEGIN " in content:
            raise StoreError("location", "the file is PEM text", "PKCS12 or JKS, or PEM as the type of the store")
        raise StoreError("location", "the file is an unknown kind of key store", "PKCS12 or JKS")
    try:
        return pkcs12.load_pkcs12(content, None if password is None else password.encode())
    except UnsupportedAlgorithm as error:
        raise StoreError("location", f"encrypted in an unknown way ({error})", "PKCS12 as Java writes it") from None
    except ValueError:
        if password is None:
            raise StoreError("password", "missing", "the password of that file") from None
        raise StoreError(
            "password", "fails to open the file, or the file is damaged", "the password that the file was written with"
        ) from None


def _decoded(content: bytes) -> str:
    try:
        return content.decode("ascii" if content.startswith((_JKS_MAGIC, _DER_SEQUENCE)) else "utf-8")
    except UnicodeDecodeError:
        raise StoreError(
            "location", "the file differs from PEM text", "PEM, or the type that it has: PKCS12 or JKS"
        ) from None


def _blocks(text: str) -> list[str]:
    """The PEM blocks of `text`, with the line breaks that PEM wants."""
    blocks = []
    for label, body in _PEM_BLOCK.findall(text):
        if ":" in body:
            # Old forms of encrypted keys have headers, whose line breaks are theirs.
            blocks.append(f"-----BEGIN {label}-----\n{body.strip()}\n-----END {label}-----\n")
            continue
        packed = "".join(body.split())
        lines = "\n".join(packed[at : at + 64] for at in range(0, len(packed), 64))
        blocks.append(f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n")
    return blocks


def _parsed_certificates(text: str, setting: Setting) -> list[x509.Certificate]:
    blocks = [block for block in _blocks(text) if "BEGIN CERTIFICATE-" in block or "BEGIN X509 CERTIFICATE-" in block]
    if not blocks:
        raise StoreError(setting, "a file that lacks certificates", "certificates as PEM text")
    try:
        return [x509.load_pem_x509_certificate(block.encode()) for block in blocks]
    except ValueError as error:
        raise StoreError(setting, f"an unreadable certificate ({error})", "certificates as PEM text") from None


def _unlocked(block: str, setting: Setting) -> PrivateKeyTypes:
    """A key that is unencrypted, although the user gave a password."""
    try:
        return load_pem_private_key(block.encode(), None)
    except (ValueError, UnsupportedAlgorithm):
        raise StoreError(setting, "an unreadable private key", "a private key in PKCS#8, as PEM text") from None


def _matched(private: PrivateKeyTypes, certificates: list[x509.Certificate], setting: Setting) -> Identity:
    """The key with its certificate in front and the chain above it; further contents of the store are left out."""
    public = private.public_key()
    own = next((one for one in certificates if one.public_key() == public), None)
    if own is None:
        raise StoreError(setting, "a private key that lacks its certificate", "the certificate of that key beside it")
    chain, above = [own], own
    while above.issuer != above.subject:
        issuer = next((one for one in certificates if one.subject == above.issuer and one not in chain), None)
        if issuer is None:
            break
        chain.append(issuer)
        above = issuer
    secret = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Identity(_pem(chain), secret.decode(), own.subject.rfc4514_string())


def _pem(certificates: list[x509.Certificate]) -> str:
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in dict.fromkeys(certificates))
