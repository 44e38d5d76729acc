"""How workers sign what they ask of each other with their group's session key (KIP-507)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

SIGNATURE = "X-Connect-Authorization"
ALGORITHM = "X-Connect-Request-Signature-Algorithm"

_DIGESTS: Mapping[str, str] = {
    "hmacmd5": "md5",
    "hmacsha1": "sha1",
    "hmacsha224": "sha224",
    "hmacsha256": "sha256",
    "hmacsha384": "sha384",
    "hmacsha512": "sha512",
    "hmacsha512/224": "sha512_224",
    "hmacsha512/256": "sha512_256",
    "hmacsha3-224": "sha3_224",
    "hmacsha3-256": "sha3_256",
    "hmacsha3-384": "sha3_384",
    "hmacsha3-512": "sha3_512",
}
"""The Mac algorithms of Java, by their names in lower case."""


def supported(algorithm: str) -> bool:
    """Whether this is a Mac algorithm of Java's that can be computed here."""
    digest = _DIGESTS.get(algorithm.lower())
    return digest is not None and digest in hashlib.algorithms_available


def sign(key: bytes, body: bytes, algorithm: str) -> bytes:
    """The signature of a request's body; in the header it is in base64. KeyError for an unknown algorithm."""
    return hmac.digest(key, body, _DIGESTS[algorithm.lower()])
