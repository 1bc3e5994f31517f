"""Language models and their stand-ins: a file each, as in `wm.models`."""
