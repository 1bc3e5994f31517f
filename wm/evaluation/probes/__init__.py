"""Linear probes of activations, and activations moved along them."""
