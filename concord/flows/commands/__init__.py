"""The work of commands that are no Prefect flow."""
