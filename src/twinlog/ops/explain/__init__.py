"""The meaning of each message id, for `twinlog explain` and `docs/messages`."""
