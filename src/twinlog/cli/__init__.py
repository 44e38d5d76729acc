"""The command `twinlog`: one file per subcommand. Nothing is loaded here, for a signal may come at any moment."""
