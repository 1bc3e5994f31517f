"""Games of chess from PGN files."""
