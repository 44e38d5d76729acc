"""The group of workers: how a worker joins, and which worker runs which connector."""
