"""The pages of the console, a file each; their templates are in `ui/templates`."""
