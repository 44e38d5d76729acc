"""Strimzi's cluster operator as a pod of MirrorMaker 2 meets it: files, variables, Secrets and requests."""
