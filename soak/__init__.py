"""Lets twinlog run for long under changing load and faults, and reports what only time shows."""
