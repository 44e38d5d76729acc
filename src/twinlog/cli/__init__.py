"""The command `twinlog`: a file for each subcommand. This module is empty, because a signal may come at
any moment."""
