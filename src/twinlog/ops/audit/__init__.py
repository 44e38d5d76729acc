"""`twinlog audit`: a report about a mirror as it runs today, by MirrorMaker 2 or by twinlog; it only reads."""
