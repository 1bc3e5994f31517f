"""Few-shot tasks about the state, and scores of adapted models' answers."""
