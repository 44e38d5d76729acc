"""The command `twinlog`: one file per subcommand."""

from __future__ import annotations

from twinlog.cli.main import app, main

__all__ = ["app", "main"]
