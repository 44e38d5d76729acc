"""Two real clusters, load, and twinlog between them, compared at the end: `make demo`."""
