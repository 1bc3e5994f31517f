"""What kernels share: compilation, bits, random numbers, checks."""
