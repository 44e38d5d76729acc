"""A migration from two addresses: a look at both clusters, the answers of an operator, the plan, the file, the run."""
