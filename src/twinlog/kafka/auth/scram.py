"""Names of users in SCRAM's first message (RFC 5802, saslname; Kafka class ScramFormatter).

Names and passwords are UTF-8 and otherwise unchanged: Kafka's clients and brokers apply no SASLprep.
"""

from __future__ import annotations

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def sasl_name(username: str) -> str:
    """`username` with escaped `=` and `,`, which delimit the fields of a message; a broker reverts the escapes."""
    return username.replace("=", "=3D").replace(",", "=2C")
