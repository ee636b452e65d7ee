"""The weights of a linear-chain CRF: its data as arrays, its objective, and the ways down it."""
