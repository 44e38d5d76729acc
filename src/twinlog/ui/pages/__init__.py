"""The pages of the console, a file each; folders of `ui/templates` have their templates."""
