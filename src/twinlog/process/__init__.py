"""A process on its machine: its temporary directories, its log, and the options of its JVMs."""
