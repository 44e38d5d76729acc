"""twinlog beside MirrorMaker 2 on one machine in one run: `make bench`."""
