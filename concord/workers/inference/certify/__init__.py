"""Branch and bound over relaxations: the engine that proves its answers."""
