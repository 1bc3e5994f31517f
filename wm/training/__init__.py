"""Training: one loop of jitted steps from a data set to checkpoints."""
