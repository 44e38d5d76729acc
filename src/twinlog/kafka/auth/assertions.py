"""Signed statements of who asks for a token (RFC 7523), as Kafka's DefaultAssertionCreator makes them (KIP-1139)."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

from twinlog.kafka.auth.refusal import NoTokenError
from twinlog.settings.oauth import AssertionSettings


def assertion(settings: AssertionSettings, now: float) -> str:
    """A ready statement out of its file, or one made and signed at `now` (Unix, in seconds). Raises NoTokenError."""
    if settings.ready is not None:
        return settings.ready.strip()
    if settings.file is not None:
        try:
            with open(settings.file, encoding="utf-8") as file:
                return file.read().strip()
        except OSError as error:
            raise NoTokenError(f"the assertion file {settings.file} cannot be read: {error.strerror}") from error
    header = {**json.loads(settings.header), "alg": settings.algorithm, "typ": "JWT"}
    claims = {
        **json.loads(settings.claims),
        "iat": int(now),
        "exp": int(now) + settings.valid_s,
        "nbf": int(now) - settings.valid_before_s,
    }
    if settings.with_id:
        claims["jti"] = str(uuid.uuid4())
    content = f"{packed(json.dumps(header).encode())}.{packed(json.dumps(claims).encode())}"
    return f"{content}.{packed(_signature(content.encode(), settings))}"


def _signature(content: bytes, settings: AssertionSettings) -> bytes:
    # Loaded here, because few clients sign anything and it takes a tenth of a second.
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    key: Any = load_pem_private_key((settings.private_key or "").encode(), None)
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(content, padding.PKCS1v15(), SHA256())
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    first, second = utils.decode_dss_signature(key.sign(content, ec.ECDSA(SHA256())))
    return first.to_bytes(32, "big") + second.to_bytes(32, "big")


def packed(content: bytes) -> str:
    """A part of a JSON web token (RFC 7515)."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
