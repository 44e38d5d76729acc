"""The `twinlog` command: one file for each of its subcommands."""
