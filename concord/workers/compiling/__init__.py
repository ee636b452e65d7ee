"""Compiling of kernels, their cache on disk, and the digest of the code that labels."""
