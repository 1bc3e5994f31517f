"""Which split a game goes to: a public function of what the game is.

As published (Walker and Lyons 2026, section 3), but for the key of the
identifiers, which there is private and here is SALT, so that everybody gets
the same split. Validation is where the bucket is below 50 of 10,000.
"""

from __future__ import annotations

import hashlib
import hmac
import re

SALT = b'wm.chess.1'
BUCKETS, HELDOUT = 10_000, 50
_GAME_URL = re.compile(rb'https?://[^/\s]+/[^/\s]\S*')


def game_id(identity: bytes, key: bytes = SALT) -> str:
  """'cwm_' and 24 hex digits of an HMAC-SHA256."""
  return 'cwm_' + hmac.digest(key, identity, 'sha256').hex()[:24]


def bucket(text: str) -> int:
  """0..9999: the first 8 bytes of an MD5, little-endian, mod BUCKETS."""
  digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
  return int.from_bytes(digest[:8], 'little') % BUCKETS


def is_heldout(identity: bytes, key: bytes = SALT) -> bool:
  """Does the game of this identity go to the held-out split?"""
  return bucket(game_id(identity, key)) < HELDOUT


def identity(site: bytes, headers: bytes, tokens: bytes) -> bytes:
  """Stable id of a game: its URL, else a hash of all its tags and moves.

  Args:
    site: value of the Site tag. It counts if it is a URL with a path; a city
      or a server names no game.
    headers: tag lines.
    tokens: published ids, start included, as little-endian uint16.
  """
  if _GAME_URL.fullmatch(site):
    return site
  lines = (line.strip() for line in headers.splitlines())
  return b'\n'.join([*filter(None, lines), b'', tokens])
