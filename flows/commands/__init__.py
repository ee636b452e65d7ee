"""What commands do that are no Prefect flow."""
