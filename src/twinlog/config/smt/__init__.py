"""Connect's transforms as a file or a connector names them: which there are, their keys, and mistakes in them."""
