"""Upper bounds: Lagrangian relaxations of agreements and of rows."""
