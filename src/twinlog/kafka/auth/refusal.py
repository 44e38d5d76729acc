"""Logins and TLS handshakes that fail for good: the reason, and the way out."""

from __future__ import annotations

import ssl

from kafka.errors import KafkaConnectionError, KafkaError

from twinlog.settings.client import ClientSettings
from twinlog.settings.tls import LEVEL_0, TlsSettings
from twinlog.settings.written import key_of

PROTOCOL = key_of(ClientSettings, "security_protocol")
MECHANISM = key_of(ClientSettings, "sasl_mechanism")
JAAS = key_of(ClientSettings, "sasl_password")
CIPHERS = key_of(TlsSettings, "suites")
_TRUST_STORE = key_of(TlsSettings, "authorities")
_KEY_STORE = key_of(TlsSettings, "certificates")
_CHECK_HOST = key_of(TlsSettings, "check_host")
_VERSIONS = key_of(TlsSettings, "lowest")


class LoginRefusedError(KafkaError):  # type: ignore[misc]
    """A side refuses the other side for good; the text is for users."""

    retriable = False

    @property
    def sentence(self) -> str:
        return str(self.args[0])


class NoTokenError(KafkaConnectionError):  # type: ignore[misc]
    """The client is unable to obtain a token at the moment."""

    @property
    def sentence(self) -> str:
        return str(self.args[0])


_READ_ONCE = "Stores are read when the process starts: a store that was renewed since then counts after a restart"

_HOST_MISMATCH = frozenset({62, 64})
_UNTRUSTED = frozenset({2, 18, 19, 20, 21, 24, 27, 28})
_NOT_YET_VALID, _EXPIRED = 9, 10
"""OpenSSL's error numbers for certificates (x509_vfy.h)."""

_ALERT = "ALERT_"
_ABOUT_CERTIFICATE = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED", "DECRYPT_ERROR")
_NOTHING_IN_COMMON = (
    "HANDSHAKE_FAILURE",
    "PROTOCOL_VERSION",
    "INSUFFICIENT_SECURITY",
    "UNSUPPORTED_PROTOCOL",
    "NO_SHARED_CIPHER",
    "WRONG_SSL_VERSION",
    "WRONG_CIPHER_RETURNED",
    "UNKNOWN_PROTOCOL",
)
_WEAK = ("_TOO_SMALL", "_TOO_WEAK", "BAD_SIGNATURE", "DH_KEY")
_WEAK_CERTIFICATE = frozenset({66, 67, 68})
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")


def of_tls(error: ssl.SSLError, host: str, *, certificate: bool) -> str | None:
    """The reason why a TLS handshake failed for good, None when another try may succeed.

    `certificate` is true when this client has a certificate to send.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _of_certificate(error, host)
    reason = error.reason or ""
    _, alert, alert_text = reason.partition(_ALERT)
    words = (alert_text or reason).lower().replace("_", " ")
    if alert and any(word in alert_text for word in _ABOUT_CERTIFICATE):
        if not certificate:
            return f"it wants a certificate of its clients ({words}); set {_KEY_STORE}"
        return (
            f"it does not accept this client's certificate ({words}); does its trust store have the authority that "
            f"signed the one in {_KEY_STORE}, and is that still valid? {_READ_ONCE}"
        )
    if any(word in reason for word in _NOTHING_IN_COMMON):
        return (
            f"both sides have no version of TLS or no cipher in common ({words}); "
            f"look at {_VERSIONS} and {CIPHERS} here and there; a broker that wants a certificate of its "
            "clients may report this too"
        )
    if any(word in reason for word in _NOT_TLS):
        return f"the port does not use TLS; set PLAINTEXT or SASL_PLAINTEXT as {PROTOCOL}, or use another port"
    if any(word in reason for word in _WEAK):
        return _too_weak(words)
    return None


def _too_weak(words: str) -> str:
    return (
        f"its keys or signatures are too weak for OpenSSL here ({words}), though Java accepts them; give the brokers a "
        f"certificate with an RSA key of 2048 bits and SHA-256, or, until they have it, set {CIPHERS} = {LEVEL_0}"
    )


def _of_certificate(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code in _HOST_MISMATCH:
        return (
            f"its certificate is not for {host}; use a name that the certificate holds, or set an empty "
            f"{_CHECK_HOST} to accept any"
        )
    if error.verify_code in _WEAK_CERTIFICATE:
        return _too_weak(error.verify_message)
    if error.verify_code == _EXPIRED:
        return "its certificate has expired, or the clock of this host is wrong"
    if error.verify_code == _NOT_YET_VALID:
        return "its certificate is not valid yet, or the clock of this host is wrong"
    if error.verify_code in _UNTRUSTED:
        return (
            f"its certificate is not trusted ({error.verify_message}); put the authority that signed it into "
            f"{_TRUST_STORE}. {_READ_ONCE}"
        )
    return f"its certificate is not accepted ({error.verify_message})"


_CAUSES = (
    ("the token server", "TW-AUTH-02"),
    ("the login was refused", "TW-AUTH-01"),
    ("its certificate is not for", "TW-NET-06"),
    ("its certificate has expired", "TW-NET-10"),
    ("its certificate is not valid yet", "TW-NET-10"),
    ("its certificate is not", "TW-NET-05"),
    ("wants a certificate of its clients (", "TW-NET-07"),
    ("does not accept this client's certificate", "TW-NET-07"),
    ("too weak for OpenSSL", "TW-NET-08"),
    ("no version of TLS or no cipher in common", "TW-NET-09"),
    ("the port of a controller", "TW-NET-04"),
    ("the port uses TLS", "TW-NET-03"),
    ("the port does not use TLS", "TW-NET-03"),
    ("the port does not want a login", "TW-NET-03"),
    ("the port answers in HTTP", "TW-NET-03"),
    ("it closes the connection", "TW-NET-03"),
    ("the host name is not known", "TW-NET-02"),
    ("no route to that host", "TW-NET-02"),
    ("no answer in time", "TW-NET-02"),
)
"""Words of the reasons why a connection fails, with the message id of each cause; the most specific cause first."""


def cause_id(text: str, default: str = "TW-NET-01") -> str:
    """The message id of a text with the reasons why brokers are unreachable."""
    return next((message_id for words, message_id in _CAUSES if words in text), default)
