"""A browser, and an issuer of OpenID Connect."""
