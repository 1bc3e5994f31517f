"""Street maps as worlds: graphs, routes, trips and pictures."""

from wm.worlds.maps.world import World

__all__ = ['World']
