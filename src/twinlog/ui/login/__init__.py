"""Logins of browsers: checks of passwords, OpenID Connect, and sessions."""
