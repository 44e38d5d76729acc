"""The texts of all messages: a module for each page of docs/messages, with the areas of the page."""
