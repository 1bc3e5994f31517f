"""Models that are language models: a file each, as in `wm.models`."""
