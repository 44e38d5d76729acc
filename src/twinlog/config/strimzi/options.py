"""The help texts of commands about Strimzi's resource, before anything that reads YAML is imported."""

from __future__ import annotations

DEFAULT_LISTENER = "http://127.0.0.1:8083"
"""Where the REST API of a worker is unless somebody asks for more: nobody else can change what it copies."""

DIRECTORY_VARIABLE = "TWINLOG_SECRETS_DIR"
"""Names the directory of Secrets where no option does."""
