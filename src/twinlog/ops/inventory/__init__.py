"""The content of a cluster, read in batches: topics, settings, log ends and sizes, disks, ACLs and groups."""
