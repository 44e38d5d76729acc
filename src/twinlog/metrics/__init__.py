"""What is measured, under the names that MirrorMaker 2 and Strimzi have for it, and under our own."""
