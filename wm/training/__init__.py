"""Training: loop, step, state, optimiser."""
