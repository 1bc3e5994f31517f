"""Studies of the authors: findings of papers, small, and the cross."""
