"""`twinlog reload`: asks the processes that run a file to read the file again."""
