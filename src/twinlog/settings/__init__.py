"""What one flow was told to do, in the form that travels to the tasks."""
