"""Two real clusters, load, and twinlog between them, with a proof at the end: `make demo`."""
