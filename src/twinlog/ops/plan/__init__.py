"""`twinlog plan`: what a run would create, change, copy and fail at; no cluster is changed."""
