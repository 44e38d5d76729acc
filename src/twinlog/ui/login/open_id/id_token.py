"""The checks of an ID token, and the user that it names (OpenID Connect Core 1.0, 3.1.3.7)."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jwt import PyJWK, PyJWT, get_unverified_header
from jwt.exceptions import InvalidSignatureError, PyJWTError

from twinlog.errors import RequestError
from twinlog.settings.open_id import EVERYONE, OpenIdSettings
from twinlog.ui.login.open_id.issuer import Issuer

ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
"""The signatures by a key that only the issuer has. Anyone may sign by `none`, and by the public key taken as a
secret of HS256."""

SKEW_S = 60.0
"""The most by which the clocks of the issuer and of this machine may differ."""

_REQUIRED = ["iss", "sub", "aud", "exp", "iat"]
_CHECK = PyJWT(options={"enforce_minimum_key_length": True})


@dataclass(frozen=True, slots=True)
class IssuerUser:
    """A user of the issuer; `admitted` says whether the settings admit the user to the console."""

    name: str
    subject: str
    admitted: bool


def check_id_token(text: str, issuer: Issuer, nonce: str) -> IssuerUser:
    """The user of an ID token that the issuer made for this console and for the login with this nonce.

    Raises RequestError 401 for any other token, and 502 if the keys of the issuer are out of reach.
    """
    settings = issuer.settings
    try:
        claims = _checked_claims(text, issuer)
    except (PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise _refused(str(error) or type(error).__name__) from None
    given = claims.get("nonce")
    if not isinstance(given, str) or not hmac.compare_digest(given.encode("utf-8", "surrogatepass"), nonce.encode()):
        raise _refused("its nonce is of another login")
    audience, party = claims["aud"], claims.get("azp")
    several = isinstance(audience, list) and len(audience) > 1
    if (several or party is not None) and party != settings.client_id:
        raise _refused("it is for another client (azp)")
    return _user_of(claims, settings)


def _checked_claims(text: str, issuer: Issuer) -> Mapping[str, Any]:
    """The claims of a token with a good signature, for this client, of this issuer, and within its time."""
    header = get_unverified_header(text)
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise ValueError(f"it is signed by {str(algorithm)[:20]!r}, which proves nothing")
    settings = issuer.settings
    # After a change of keys the known keys lack the key of the token.
    for again in (False, True):
        for key in _fitting(issuer.read_keys(again=again), algorithm, key_id):
            try:
                return _CHECK.decode(
                    text,
                    key,
                    algorithms=[algorithm],
                    audience=settings.client_id,
                    issuer=settings.issuer,
                    leeway=SKEW_S,
                    options={"require": _REQUIRED},
                )
            except InvalidSignatureError:
                continue
    raise ValueError("its signature is by none of the keys of the issuer")


def _fitting(keys: Sequence[Mapping[str, Any]], algorithm: str, key_id: str | None) -> Iterator[PyJWK]:
    """The keys that may have made a signature."""
    for key in keys:
        if key_id is not None and key.get("kid") != key_id:
            continue
        if key.get("use", "sig") != "sig" or key.get("alg", algorithm) != algorithm:
            continue
        try:
            found = PyJWK(dict(key), algorithm)
        except (PyJWTError, ValueError, TypeError):
            # It is a key of another kind, or malformed.
            continue
        yield found


def _user_of(claims: Mapping[str, Any], settings: OpenIdSettings) -> IssuerUser:
    subject, user = str(claims["sub"]), claims.get(settings.user_claim)
    if not isinstance(user, str) or not user.strip():
        raise _refused(f"it lacks the claim {settings.user_claim}, which names the user")
    # Some issuers write the claim as a text.
    if settings.user_claim == "email" and str(claims.get("email_verified", "")).lower() == "false":
        raise _refused("the issuer has not verified the address of the claim email")
    groups = claims.get(settings.groups_claim)
    listed = groups if isinstance(groups, list) else [groups]
    named = {one for one in listed if isinstance(one, str)}
    admitted = EVERYONE in settings.subjects or subject in settings.subjects or bool(named & set(settings.groups))
    return IssuerUser(user, subject, admitted)


def _refused(reason: str) -> RequestError:
    return RequestError(401, f"The console refuses the ID token of the issuer: {reason}.")
