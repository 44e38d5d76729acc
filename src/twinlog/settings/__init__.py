"""The settings of one flow, in the form that travels to the tasks."""
