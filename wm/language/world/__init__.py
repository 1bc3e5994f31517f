"""Any world told in words, as a task of Inspect: `wm/world`."""
