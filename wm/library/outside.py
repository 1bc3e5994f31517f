"""What is brought from outside: street maps, published checkpoints."""

from wm.data.street_files import fetch as fetch_map
from wm.data.street_files import from_graph
from wm.training.adopt import gpt2 as import_gpt2
