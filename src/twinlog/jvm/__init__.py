"""Options and class archives of the JVMs that twinlog starts."""
