"""Base classes of the families: specs, stacks, recurrent networks, Mambas."""
