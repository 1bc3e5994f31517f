"""What several worlds are built from."""
