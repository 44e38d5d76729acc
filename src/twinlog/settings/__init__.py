"""The settings of a flow, in the form that travels to the tasks."""
