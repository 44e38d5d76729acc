"""The login to the console by an issuer of OpenID Connect; read only by the process that serves the console."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from twinlog.settings.tls import TlsSettings
from twinlog.settings.written import WrittenAs

EVERYONE = "*"
"""In place of a subject it admits each user of the issuer."""

CALLBACK = "/ui/login/callback"
"""The path to which the issuer sends a browser back."""


@dataclass(frozen=True, slots=True)
class OpenIdSettings:
    """The issuer, the console as its client, and the users that the console admits.

    `issuer` and `redirect_uri` equal the texts that the issuer has, character by character. With `client_secret` None
    the console is a public client. The console admits a user if the claim `sub` of the ID token is in `subjects`, if
    `subjects` has `*`, or if the claim `groups_claim` has a group of `groups`. The claim `user_claim` names the user on
    pages and in the audit log. `tls` are the settings of connections to the issuer, None for the authorities of the
    operating system.
    """

    issuer: Annotated[str, WrittenAs("twinlog.console.oauth.issuer")] = ""
    client_id: Annotated[str, WrittenAs("twinlog.console.oauth.client.id")] = ""
    client_secret: Annotated[str | None, WrittenAs("twinlog.console.oauth.client.secret")] = field(
        default=None, repr=False
    )
    redirect_uri: Annotated[str, WrittenAs("twinlog.console.oauth.redirect.uri")] = ""
    scope: Annotated[str, WrittenAs("twinlog.console.oauth.scope")] = "openid"
    user_claim: Annotated[str, WrittenAs("twinlog.console.oauth.user.claim")] = "sub"
    subjects: Annotated[tuple[str, ...], WrittenAs("twinlog.console.oauth.allowed.subjects")] = ()
    groups_claim: Annotated[str, WrittenAs("twinlog.console.oauth.groups.claim")] = "groups"
    groups: Annotated[tuple[str, ...], WrittenAs("twinlog.console.oauth.allowed.groups")] = ()
    tls: TlsSettings | None = None

    @property
    def behind_tls(self) -> bool:
        """Whether browsers come back over TLS, which a proxy in front of the console may end."""
        return self.redirect_uri.lower().startswith("https://")
