"""Token shards, splits and batches."""
