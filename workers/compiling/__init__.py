"""How kernels are compiled, where they are kept, and the digest of the code that labels."""
