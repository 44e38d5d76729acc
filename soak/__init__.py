"""Lets twinlog run for long under changing load and faults, and tells what only time shows."""
