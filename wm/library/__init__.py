"""The calls of the library, `wm.NAME`: what binaries do, without flags."""
