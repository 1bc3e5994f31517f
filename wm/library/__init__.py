"""What a binary does, as calls without flags, reached as `wm.NAME`."""
