"""Programs of images as processes of this machine: compose files, guides, pods of Kubernetes and of Strimzi."""
