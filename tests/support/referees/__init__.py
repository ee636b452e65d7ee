"""Independent judges of the proofs: other solvers on encodings of their own, and problems to try them on."""
