"""`twinlog switchover`: moves producers and groups to the other cluster and back, with a journal of each step."""
