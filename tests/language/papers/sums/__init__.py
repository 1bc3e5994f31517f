"""A paper of sums, added to a copy of the tree by adding_test."""
