"""The pages of topics: the list, a topic and its actions, and the records on both sides."""
