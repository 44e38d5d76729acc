"""Strimzi's `KafkaMirrorMaker2`: from its YAML to the worker, the connectors and the flows that it asks for.

The help texts of commands need these names before anything that reads YAML is imported.
"""

DEFAULT_LISTENER = "http://127.0.0.1:8083"
"""The default address of a worker's REST API: only programs on this machine can use it."""

DIRECTORY_VARIABLE = "TWINLOG_SECRETS_DIR"
"""The variable with the directory of Secrets, used if the option is missing."""
