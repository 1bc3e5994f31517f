"""Changes to folders of Hugging Face that make them wrong."""

import json


def settings(name, **changes):
  """Changes a file of settings; a value of ... takes a key away."""

  def change(folder):
    table = json.loads((folder / name).read_text()) | changes
    left = {key: value for key, value in table.items() if value is not ...}
    (folder / name).write_text(json.dumps(left))

  return change


def tensors(name, function):
  """Changes the tensors of a file of weights."""
  from safetensors.torch import load_file, save_file

  def change(folder):
    weights = function(dict(load_file(folder / name)))
    save_file(weights, folder / name, metadata={'format': 'pt'})

  return change
