"""Ed25519 keys in PEM files, and signatures of 64 bytes, as `openssl pkeyutl` checks them.

A private key is in PKCS#8 without a password, a public key in SubjectPublicKeyInfo.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from twinlog.errors import OptionError


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A public key, which tells whether its private key has signed some bytes."""

    key: Ed25519PublicKey

    @classmethod
    def read(cls, path: Path) -> VerifyingKey:
        """The key in a file. Raises OptionError if the file is unreadable, or has another content."""
        try:
            return cls.of_pem(path.read_bytes())
        except OSError as error:
            raise OptionError(f"{path} is unreadable: {error.strerror}") from None
        except ValueError:
            raise OptionError(f"{path} has no public key of Ed25519 in PEM; `twinlog keygen` makes a pair") from None

    @classmethod
    def of_pem(cls, text: bytes) -> VerifyingKey:
        """The key in a PEM text. Raises ValueError for another content."""
        try:
            found = load_pem_public_key(text)
        except UnsupportedAlgorithm as error:
            raise ValueError(str(error)) from None
        if not isinstance(found, Ed25519PublicKey):
            raise ValueError("another algorithm")
        return cls(found)

    @property
    def pem(self) -> bytes:
        """The key as a PEM text."""
        return self.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the key in DER, as in `openssl pkey -pubin -in FILE -outform DER | sha256sum`."""
        der = self.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return f"sha256:{hashlib.sha256(der).hexdigest()}"

    def accepts(self, data: bytes, signature: bytes) -> bool:
        """Whether the private key has made this signature of exactly these bytes."""
        try:
            self.key.verify(signature, data)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key."""

    key: Ed25519PrivateKey

    @classmethod
    def generate(cls) -> SigningKey:
        """Make a new key, by the randomness of the system."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def read(cls, path: Path) -> SigningKey:
        """The key in a file. Raises OptionError if the file is unreadable, or has another content."""
        try:
            found = load_pem_private_key(path.read_bytes(), None)
        except OSError as error:
            raise OptionError(f"{path} is unreadable: {error.strerror}") from None
        except TypeError:
            raise OptionError(f"{path} has a password; remove the password from the key") from None
        except (ValueError, UnsupportedAlgorithm):
            raise OptionError(f"{path} has no private key in PEM; `twinlog keygen` makes a pair") from None
        if not isinstance(found, Ed25519PrivateKey):
            raise OptionError(f"{path} has a key of another algorithm than Ed25519; `twinlog keygen` makes a pair")
        return cls(found)

    @property
    def public(self) -> VerifyingKey:
        """The public key of the pair."""
        return VerifyingKey(self.key.public_key())

    @property
    def pem(self) -> bytes:
        """The key as a PEM text."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def sign(self, data: bytes) -> bytes:
        """Return the 64 bytes of the signature; the same bytes get the same signature."""
        return self.key.sign(data)
