"""What Ray's workers can be asked to do, and the actor that does it."""
