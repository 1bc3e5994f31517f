"""Prints the exact Myhill-Nerode boundary of two states, or its sizes.

  python launch/boundary.py --world='connect4(rows=6)' --depth=6 \
    --first=1,1,1,2,2,2,2 --second=3,1,1,2,2,2,2

--first and --second are states as the world writes them, or sequences of
tokens that lead to them. One line `k size` for each length bound k up to
--depth, cumulative; with --show, the suffixes before these.
"""

import common


def main() -> None:
  """Flags in, one library call."""
  common.need('world', 'first', 'second')
  from wm import registry
  from wm.worlds import exact

  flags = common.FLAGS
  lines = exact.boundary_lines(
    registry.make('world', flags.world),
    flags.first,
    flags.second,
    flags.depth,
    flags.show,
  )
  print('\n'.join(lines))


if __name__ == '__main__':
  common.run(main, 'world', 'first', 'second', 'depth', 'show')
