"""MANGO: destination and route finding in text games (Ding et al. 2024)."""
