"""The command `twinlog`: a file for each subcommand. This module loads no other module, because a signal may come at
any moment."""
