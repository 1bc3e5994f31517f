"""The automaton that a model implies, as a call."""

from __future__ import annotations

from collections.abc import Callable

from wm import core
from wm.core import registry
from wm.core.accept import Accept
from wm.library.loading import Source, loaded_predictor
from wm.options import check, takes
from wm.options.calls import Loading, Path
from wm.options.extraction import Extraction
from wm.recon import extract as recon


@takes(learning=Extraction, loading=Loading)
def extract(
  source: Source,
  world: core.World | str | None = None,
  out: Path | None = None,
  *,
  accept: Accept | str = 'epsilon(0.01)',
  learning: Extraction,
  loading: Loading,
  log: Callable[[str], None] = lambda line: None,
) -> recon.Extracted:
  """Learns the minimal automaton that a model implies, beside the world's.

  A word is in the model's language if each of its tokens is accepted after
  those before it; one forward pass of a word answers all of its beginnings.
  Random walks of the world and of the model, and the world's boundaries, look
  for words about which the automaton is wrong. Fresh walks bound how often it
  still is (probably approximately correct, Angluin 1987).

  A model says nothing before its first token: what is legal there is the
  world's. A model may know that sequences of its training end, and have states
  that count tokens: a smaller `depth` leaves them out.

  Args:
    source: a run, a model or a predictor, see `wm.load_predictor`.
    world: whose rules; None is the world that a run was trained on.
    out: folder for extraction.json, extraction.svg and automaton.json, which
      the world automaton(file=...) reads; a killed call goes on there. None
      writes nothing.
    accept: the rule by which the model accepts a token.
    learning: depth, most, queries, walks, tails.
    loading: checkpoint, model, name, see `wm.load_predictor`; and the seed of
      all walks.
    log: gets the counts and the files.

  Returns:
    The automaton, the world's, and all differences; a notebook shows the
    picture.

  Raises:
    InputError: the model gives no next tokens or only answers yes and no, or
      has no words of `depth` tokens.
  """
  check(learning)
  loaded, _ = loaded_predictor(source, world, loading)
  loaded.check()
  rule = registry.resolve('accept', accept)
  if out is None:
    extracted = recon.extract(loaded, learning, rule, loading.seed)
  else:
    extracted = recon.write(loaded, learning, rule, loading.seed, out)
  for line in extracted.lines():
    log(line)
  if out is not None:
    names = recon.FILE, recon.PICTURE, recon.MACHINE
    log(f'written: {out}/{", ".join(names)}')
  return extracted
