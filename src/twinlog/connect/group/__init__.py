"""How the workers of a group find together, and who of them runs which connector."""
