"""The login to the console by an issuer of OpenID Connect."""
