"""Rows of games: where a game's parts lie in a text, in bytes."""

# Columns of a row: bytes where a game starts, its move text starts and
# it ends; tags that could be read; FLAGS; first and last + 1 byte of the
# values of some tags, both 0 where a game has no such tag.
START, MOVES, END, TAGS, FLAGS = range(5)
NAMES = ('site', 'variant', 'fen', 'setup')
SITE, VARIANT, FEN, SETUP = range(5, 13, 2)
WIDTH = 13

# Bits of FLAGS: a tag could not be read; a comment or variation is not closed;
# the game has its result.
BROKEN, OPEN, OVER = 1, 2, 4
