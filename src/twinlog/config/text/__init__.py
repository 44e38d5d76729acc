"""From the text of a file to typed values: entries, references, precedence, and problems with their lines."""
