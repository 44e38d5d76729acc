"""A small issuer of OpenID Connect on loopback. Its user agrees to each login at once, and tests choose its mistakes.

It shares no code with the console: it signs with the cryptography package alone. Its sockets are real, and over TLS if
it is given a certificate.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from harness.child import Started

DEADLINE_S = 60.0
LASTS_S = 300
SUBJECT = "u-1"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key of the issuer with its id."""

    key_id: str
    private: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

    @classmethod
    def of_rsa(cls, key_id: str) -> SigningKey:
        return cls(key_id, rsa.generate_private_key(65537, 2048))

    @classmethod
    def of_ec(cls, key_id: str) -> SigningKey:
        return cls(key_id, ec.generate_private_key(ec.SECP256R1()))

    @property
    def algorithm(self) -> str:
        return "RS256" if isinstance(self.private, rsa.RSAPrivateKey) else "ES256"

    @property
    def public_pem(self) -> bytes:
        return self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def jwk(self) -> dict[str, str]:
        """The public key as a JSON web key (RFC 7517)."""
        found = {"kid": self.key_id, "use": "sig", "alg": self.algorithm}
        if isinstance(self.private, rsa.RSAPrivateKey):
            of_rsa = self.private.public_key().public_numbers()
            return {**found, "kty": "RSA", "n": number(of_rsa.n), "e": number(of_rsa.e)}
        of_ec = self.private.public_key().public_numbers()
        return {**found, "kty": "EC", "crv": "P-256", "x": number(of_ec.x, 32), "y": number(of_ec.y, 32)}

    def sign(self, content: bytes) -> bytes:
        if isinstance(self.private, rsa.RSAPrivateKey):
            return self.private.sign(content, padding.PKCS1v15(), SHA256())
        first, second = utils.decode_dss_signature(self.private.sign(content, ec.ECDSA(SHA256())))
        return first.to_bytes(32, "big") + second.to_bytes(32, "big")


def packed(content: bytes) -> str:
    """Base64 for URLs without padding (RFC 7515)."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def number(value: int, length: int = 0) -> str:
    """A number of a JSON web key, of `length` bytes at least."""
    return packed(value.to_bytes(max(length, (value.bit_length() + 7) // 8), "big"))


@dataclass(frozen=True, slots=True)
class Given:
    """The login for which a code was given."""

    nonce: str
    challenge: str
    redirect_uri: str


@dataclass
class OpenIdIssuer(Started):
    """The issuer with one client; use as a context manager.

    A token has the claims of the user, then `claims`; a value of None leaves a claim out. `key` signs the next tokens,
    and `keys` are the public keys that the issuer shows. `algorithm` replaces the algorithm of the key in the header:
    `none` leaves the signature empty, `HS256` signs by the public key as if it were a secret. With `error` the user
    refuses. With `fails` the named paths answer this status. `posts_secret` takes the secret only in the form.
    """

    client_id: str = "console"
    client_secret: str | None = "hush"
    redirect_uri: str = "http://localhost:8081/ui/login/callback"
    context: ssl.SSLContext | None = None
    key: SigningKey = field(default_factory=lambda: SigningKey.of_rsa("k1"))
    claims: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    algorithm: str | None = None
    error: str | None = None
    fails: dict[str, int] = field(default_factory=dict)
    posts_secret: bool = False
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Each request: its path, and its query or form."""

    def __post_init__(self) -> None:
        self.keys = [self.key]
        self._codes: dict[str, Given] = {}
        self._count = 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                issuer.answer(self, parts.path, first_of(parts.query))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                issuer.answer(self, self.path, first_of(body))

            def log_message(self, *_: object) -> None:
                """Logs nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if self.context is not None:
            self._server.socket = self.context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        scheme = "http" if self.context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"

    def start(self) -> OpenIdIssuer:
        self._thread.start()
        return self

    def close(self) -> None:
        """Listen no longer."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(DEADLINE_S)
        self._server.server_close()

    def rotate(self, key: SigningKey) -> None:
        """Sign by another key from now on, and show only that key."""
        self.key, self.keys = key, [key]

    def visit(self, url: str) -> str:
        """The address to which the issuer sends a browser that comes to `url`."""
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=DEADLINE_S)
        try:
            connection.request("GET", f"{parts.path}?{parts.query}")
            with connection.getresponse() as answer:
                location = answer.getheader("Location")
                assert answer.status == 302, answer.read()
                assert location is not None
                return location
        finally:
            connection.close()

    # -- its answers

    def answer(self, request: BaseHTTPRequestHandler, path: str, given: dict[str, str]) -> None:
        self.asked.append((path, given))
        if path in self.fails:
            send(request, self.fails[path], b"<html>Bad gateway</html>")
        elif path == "/.well-known/openid-configuration":
            send(request, 200, self.described())
        elif path == "/keys":
            send(request, 200, {"keys": [one.jwk() for one in self.keys]})
        elif path == "/authorize":
            self._authorize(request, given)
        elif path == "/token":
            send(request, *self._token(request.headers.get("Authorization", ""), given))
        else:
            send(request, 404, {"error": "unknown"})

    def described(self) -> dict[str, Any]:
        """The metadata (OpenID Connect Discovery 1.0)."""
        method = "client_secret_post" if self.posts_secret else "client_secret_basic"
        found = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256", "ES256"],
            "token_endpoint_auth_methods_supported": [method],
            "code_challenge_methods_supported": ["S256"],
        }
        return {**found, **self.metadata}

    def _authorize(self, request: BaseHTTPRequestHandler, given: dict[str, str]) -> None:
        wanted = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "code_challenge_method": "S256",
        }
        wrong = [name for name, value in wanted.items() if given.get(name) != value]
        wrong += [name for name in ("state", "nonce", "code_challenge") if len(given.get(name, "")) < 32]
        if wrong or "openid" not in given.get("scope", "").split():
            send(request, 400, {"error": "invalid_request", "wrong": wrong})
            return
        answer = {"state": given["state"], "iss": self.url}
        if self.error is not None:
            answer["error"] = self.error
        else:
            self._count += 1
            answer["code"] = f"code-{self._count}"
            self._codes[answer["code"]] = Given(given["nonce"], given["code_challenge"], given["redirect_uri"])
        request.send_response(302)
        request.send_header("Location", f"{self.redirect_uri}?{urlencode(answer)}")
        request.send_header("Content-Length", "0")
        request.end_headers()

    def _token(self, authorization: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if not self._knows_client(authorization, form):
            return 401, {"error": "invalid_client"}
        # A code is good once (RFC 6749, 4.1.2).
        given = self._codes.pop(form.get("code", ""), None)
        verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if given is None or form.get("redirect_uri") != given.redirect_uri or packed(verifier) != given.challenge:
            return 400, {"error": "invalid_grant"}
        return 200, {"access_token": "opaque", "token_type": "Bearer", "id_token": self.signed(given.nonce)}

    def _knows_client(self, authorization: str, form: dict[str, str]) -> bool:
        if self.client_secret is None:
            return form.get("client_id") == self.client_id and not authorization
        if self.posts_secret:
            return (form.get("client_id"), form.get("client_secret")) == (self.client_id, self.client_secret)
        login = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        return [unquote_plus(part) for part in login.split(":")] == [self.client_id, self.client_secret]

    def signed(self, nonce: str) -> str:
        """An ID token for the user."""
        now = int(time.time())
        known = {"iss": self.url, "sub": SUBJECT, "aud": self.client_id, "iat": now, "exp": now + LASTS_S}
        claims = {**known, "nonce": nonce, **self.claims}
        header = {"alg": self.algorithm or self.key.algorithm, "kid": self.key.key_id, "typ": "JWT"}
        parts = [header, {name: value for name, value in claims.items() if value is not None}]
        content = ".".join(packed(json.dumps(part).encode()) for part in parts)
        if header["alg"] == "none":
            return f"{content}."
        if header["alg"] == "HS256":
            return f"{content}.{packed(hmac.digest(self.key.public_pem, content.encode(), 'sha256'))}"
        return f"{content}.{packed(self.key.sign(content.encode()))}"


def first_of(query: str) -> dict[str, str]:
    """The first value of each field."""
    return {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}


def send(request: BaseHTTPRequestHandler, status: int, content: Mapping[str, Any] | bytes) -> None:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    request.send_response(status)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)
