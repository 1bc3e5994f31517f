"""The explorer: a web page to walk a world and compare models of the world."""
