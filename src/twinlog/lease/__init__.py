"""The contract between the driver and its tasks: the channel, its messages, grants and progress."""
