"""Questions and changes on a cluster: topics, settings, rights, groups, producers."""
