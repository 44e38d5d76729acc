"""The table of all configuration keys: type, default, documentation and scope."""
