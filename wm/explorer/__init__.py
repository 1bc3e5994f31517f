"""The explorer: a page in which to walk a world beside a model of it."""
