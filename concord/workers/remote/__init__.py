"""Tasks for Ray's workers, and the actor that does them."""
