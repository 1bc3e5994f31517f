"""Options and specs, as calls take them."""

from typing import Any

from wm.core import registry
from wm.core.registry import names, spec
from wm.core.trust import trust
from wm.options.calls import Scoring
from wm.options.reconstruction import Reconstruction
from wm.options.sampling import Sampling
from wm.options.training import Training


def make(kind: str, text: str) -> Any:
  """The object of a spec; a file that it names is run, and trusted from now on.

  Args:
    kind: 'world', 'model', 'metric' or 'accept'.
    text: the spec.

  Raises:
    InputError: an unknown name or field, a value that does not fit, or a file
      that fails.

  >>> make('accept', 'epsilon(0.01)')
  epsilon(threshold=0.01)
  """
  return registry.resolve(kind, text)
