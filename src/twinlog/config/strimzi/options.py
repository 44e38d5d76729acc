"""The help texts of commands about Strimzi's resource, before anything that reads YAML is imported."""

from __future__ import annotations

DEFAULT_LISTENER = "http://127.0.0.1:8083"
"""The default address of a worker's REST API: only programs on this machine can use it."""

DIRECTORY_VARIABLE = "TWINLOG_SECRETS_DIR"
"""The variable with the directory of Secrets, used if the option is missing."""
