"""Makes nodes.csv, edges.csv and map.graphml of an OpenStreetMap street map.

  python launch/fetch_map.py --out=maps/soho \\
    --osm_place='SoHo, New York City, USA'
  python launch/fetch_map.py --out=maps/soho --map_file=soho.osm

  python launch/fetch_map.py --out=maps/manhattan --date=2024-05-05 \\
    --osm_place='Manhattan, New York City, USA'

--date is the map as that day began (UTC), for maps that are to be those of a
paper. --osm_place needs internet; both need the extra `maps`. Then
`--world="maps(nodes='maps/soho/nodes.csv', edges='maps/soho/edges.csv')"`.
`python launch/list.py --world=maps` says what the files hold. `wm.from_graph`
makes the world of a networkx or OSMnx graph.
"""

import common


def main() -> None:
  """Flags in, one library call."""
  common.require('out')
  import wm

  flags = common.FLAGS
  if flags.map_file:
    common.refuse_together('map_file', 'osm_place', 'date')
  else:
    common.require('osm_place', other='map_file')
  place, file = flags.osm_place or '', flags.map_file or ''
  print(wm.fetch_map(flags.out, place, file, date=flags.date))


if __name__ == '__main__':
  common.run(main, 'osm_place', 'map_file', 'date')
