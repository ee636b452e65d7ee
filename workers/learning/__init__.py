"""Learning of penalties and of models under constraints."""
