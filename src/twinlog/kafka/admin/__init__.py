"""Requests for topics, settings, ACLs, groups and producers of a cluster."""
