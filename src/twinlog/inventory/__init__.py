"""What a cluster holds, read in batches: topics, settings, log ends and sizes, disks, ACLs and consumer groups."""
