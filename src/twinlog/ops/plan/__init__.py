"""`twinlog plan`: the topics that a run would create, change and copy, and the problems that would stop it; it only
reads."""
