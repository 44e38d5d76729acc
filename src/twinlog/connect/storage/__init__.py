"""The state that a group of Connect workers keeps in its topics, in Connect's own form."""
