"""Small data sets that models are adapted to, and what they are asked."""
