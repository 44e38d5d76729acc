"""The users of the REST API: HTTP basic authentication as in Connect's BasicAuthSecurityRestExtension.

A password is plain in the file, as for Connect's PropertyFileLoginModule, or a hash: bcrypt as `htpasswd -B` writes it,
or scrypt as `$scrypt$ln=15,r=8,p=1$SALT$HASH` in base64 without padding.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import bcrypt

_BCRYPT = re.compile(r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}")
_SCRYPT = re.compile(r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/.]+)\$([A-Za-z0-9+/.]+)")
_LONGEST = 4096
_MOST_REMEMBERED = 1000
_MEMORY = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Credentials:
    """The user and the password of a request."""

    user: str
    password: str = field(repr=False)

    @property
    def authorization(self) -> str:
        """The header `Authorization` of HTTP basic authentication (RFC 7617)."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def credentials(header: str | None) -> Credentials | None:
    """The credentials of an `Authorization` header; None for another scheme or a malformed header."""
    scheme, blank, encoded = (header or "").partition(" ")
    if not blank or scheme.lower() != "basic" or len(encoded) > _LONGEST:
        return None
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None
    user, colon, password = decoded.partition(":")
    return Credentials(user, password) if user and colon else None


class Users:
    """Names and passwords, plain or hashed. An empty file lets everyone in, as Connect's does.

    The comparison with a hash takes long on purpose. After a login with a hash, a quick digest under a key of this
    process remembers the user, so that each later request is answered at once.
    """

    def __init__(self, passwords: Mapping[str, str], warnings: Sequence[str] = ()) -> None:
        self.warnings = warnings
        """Warnings about entries of the file that are probably mistakes."""
        self._passwords = dict(passwords)
        self._key = secrets.token_bytes(32)
        self._remembered: dict[str, bytes] = {}
        hashes = [password for password in self._passwords.values() if hashed(password)]
        # The password of an unknown user is compared with a hash, too, so that response times hide the names of users.
        self._stranger = hashes[0] if hashes else secrets.token_hex(32)

    @property
    def everyone(self) -> bool:
        """Whether everyone is let in."""
        return not self._passwords

    def known(self, login: Credentials) -> bool | None:
        """Whether a login is valid; None when a hash has to be compared first."""
        stored = self._passwords.get(login.user, self._stranger)
        if not hashed(stored):
            return self._equal(login.password, stored) and login.user in self._passwords
        before = self._remembered.get(login.user)
        return True if before is not None and hmac.compare_digest(before, self._digest(login.password)) else None

    def compare(self, login: Credentials) -> bool:
        """Whether a login is valid, by the hash; takes a tenth of a second, or the time of the hash's cost."""
        stored = self._passwords.get(login.user, self._stranger)
        good = _matches(login.password, stored) and login.user in self._passwords
        if good:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[login.user] = self._digest(login.password)
        return good

    def _equal(self, one: str, other: str) -> bool:
        return hmac.compare_digest(self._digest(one), self._digest(other))

    def _digest(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode("utf-8", "surrogatepass"), "sha256")


def hashed(stored: str) -> bool:
    """Whether a password in the file is a hash."""
    return _BCRYPT.fullmatch(stored) is not None or _SCRYPT.fullmatch(stored) is not None


def _matches(password: str, stored: str) -> bool:
    secret = password.encode("utf-8", "surrogatepass")
    parts = _SCRYPT.fullmatch(stored)
    try:
        return _bcrypt_matches(secret, stored) if parts is None else _scrypt_matches(secret, parts)
    except ValueError:
        # The entry only looks like a hash.
        return False


def _bcrypt_matches(secret: bytes, stored: str) -> bool:
    # bcrypt compares only the first 72 bytes: a longer password would be equal to the hash of another password.
    return len(secret) <= 72 and b"\0" not in secret and bcrypt.checkpw(secret, stored.encode("ascii"))


def _scrypt_matches(secret: bytes, parts: re.Match[str]) -> bool:
    cost, size, parallel = (int(part) for part in parts.groups()[:3])
    salt, expected = _unpadded(parts[4]), _unpadded(parts[5])
    found = hashlib.scrypt(secret, salt=salt, n=1 << cost, r=size, p=parallel, maxmem=_MEMORY, dklen=len(expected))
    return hmac.compare_digest(found, expected)


def _unpadded(text: str) -> bytes:
    plain = text.replace(".", "+")
    return base64.b64decode(plain + "=" * (-len(plain) % 4))
