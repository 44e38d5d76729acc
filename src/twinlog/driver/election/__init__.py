"""Which of several processes runs a flow."""
