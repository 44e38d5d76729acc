"""TLS and logins: JAAS lines, OAUTHBEARER, key stores and trust stores."""
