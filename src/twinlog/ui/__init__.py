"""The console: pages for browsers about flows, topics and groups, from the readers of the commands."""
