"""Weights of Walker and Lyons' program give the logits of their seven families.

Their layers are written out here token by token. Names and shapes are those of
the program and of torch-slices 0.3.3, flash-linear-attention 0.5.0 and
mamba-ssm 2.3.1, which it pins.
"""

import math

import numpy as np
import pytest
from flax import nnx

import wm
from wm import core
from wm.core import registry
from wm.models.nn import network
from wm.training import import_checkpoint

torch = pytest.importorskip('torch', reason='the extra torch is not installed')
f = torch.nn.functional

WORLD = 'chess(length=13)'
V, LOGITS = 20482, 1878


class Sizes:
  """Widths of a small network; the paper's are `Sizes(paper=True)`."""

  def __init__(self, paper=False):
    self.layers, self.width, self.heads = (1, 128, 2) if paper else (2, 8, 2)
    self.key, self.value, self.hidden = (48, 96, 512) if paper else (3, 5, 7)
    self.channels, self.state = (64, 128) if paper else (4, 8)
    self.mlp = 512 if paper else 128  # Of 4 D, up to a multiple of 128.
    self.block, self.rank = (8, 4) if paper else (4, 2)


# Their names and shapes, of a block and of the rest.


def transformer_shapes(s):
  d = s.width
  maps = {'attn.qkv': (3 * d, d), 'attn.out_proj': (d, d)}
  maps |= {'mlp.in_proj': (8 * d, d), 'mlp.out_proj': (d, 4 * d)}
  block = {'norm1.weight': (d,), 'norm2.weight': (d,)}
  for name, shape in maps.items():
    block |= {f'{name}.weight': shape, f'{name}.bias': shape[:1]}
  rest = {'tok_emb.weight': (V, d), 'final_norm.weight': (d,)}
  return named('blocks', block, s) | rest


def slice_shapes(s, size=None):
  d, size = s.width, size or s.block
  block = {'slice.init': (d,), 'slice.vf_A.weight': (d * size, d + 1)}
  block |= {'slice.vf_B.weight': (d, d + 1)}
  block |= {'norm1.weight': (d,), 'norm2.weight': (d,)}
  block |= {'token_mlp.0.weight': (4 * d, d), 'token_mlp.0.bias': (4 * d,)}
  block |= {'token_mlp.2.weight': (d, 4 * d), 'token_mlp.2.bias': (d,)}
  return named('layers', block, s) | {'embedding.weight': (V, d)}


def deltanet_shapes(s):
  d, keys, values = s.width, s.heads * s.key, s.heads * s.value
  block = {'attn_norm.weight': (d,), 'mlp_norm.weight': (d,)}
  block |= {'attn.A_log': (s.heads,), 'attn.dt_bias': (s.heads,)}
  rows = {'q': keys, 'k': keys, 'v': values, 'g': values}
  for name, size in (rows | {'a': s.heads, 'b': s.heads}).items():
    block[f'attn.{name}_proj.weight'] = size, d
  for name in 'qkv':
    block[f'attn.{name}_conv1d.weight'] = rows[name], 1, 4
  block |= {'attn.o_norm.weight': (s.value,), 'attn.o_proj.weight': (d, values)}
  for name in ('gate', 'up'):
    block[f'mlp.{name}_proj.weight'] = s.hidden, d
  block['mlp.down_proj.weight'] = d, s.hidden
  rest = {'backbone.embeddings.weight': (V, d), 'backbone.norm.weight': (d,)}
  return named('backbone.layers', block, s) | rest


def mamba_shapes(s, outputs, more):
  """outputs: rows of in_proj beside those of gate and x."""
  d, inner = s.width, 2 * s.width
  block = {'norm.weight': (d,), 'norm2.weight': (d,)}
  block |= {'mixer.in_proj.weight': (2 * inner + outputs, d)}
  block |= {'mixer.out_proj.weight': (d, inner)}
  block |= {'mlp.fc1.weight': (2 * s.mlp, d), 'mlp.fc2.weight': (d, s.mlp)}
  for name in ('dt_bias', 'D'):
    block[f'mixer.{name}'] = (inner // s.channels,)
  block |= {f'mixer.{name}': shape for name, shape in more.items()}
  rest = {'embedding.weight': (V, d), 'final_norm.weight': (d,)}
  return named('layers', block, s) | rest


def mamba2_shapes(s):
  inner = 2 * s.width
  heads, mixed = inner // s.channels, inner + 2 * s.state
  more = {'A_log': (heads,), 'norm.weight': (inner,)}
  more |= {'conv1d.weight': (mixed, 1, 4), 'conv1d.bias': (mixed,)}
  return mamba_shapes(s, 2 * s.state + heads, more)


def mamba3_shapes(s, rank=1):
  heads = 2 * s.width // s.channels
  more = {f'{x}_bias': (heads, rank, s.state) for x in 'BC'}
  more |= {f'{x}_norm.weight': (s.state,) for x in 'BC'}
  if rank > 1:
    more |= {f'mimo_{x}': (heads, rank, s.channels) for x in 'xzo'}
  outputs = 2 * rank * s.state + 3 * heads + s.state // 4
  return mamba_shapes(s, outputs, more)


def mimo_shapes(s):
  return mamba3_shapes(s, s.rank)


def diagonal_shapes(s):
  return slice_shapes(s, 1)


def named(lead, block, s):
  head = {'output_head.weight': (LOGITS, s.width)}
  head['output_head.bias'] = (LOGITS,)
  return head | {
    f'{lead}.{n}.{name}': shape
    for n in range(s.layers)
    for name, shape in block.items()
  }


# Their layers: (weights of a block by name, x [B, L, D], sizes) -> x.


def linear(w, name, x):
  return f.linear(x, w[f'{name}.weight'], w.get(f'{name}.bias'))


def rms(x, scale, epsilon):
  return x * (x.square().mean(-1, keepdim=True) + epsilon).rsqrt() * scale


def published_turn(x):
  """Angles in halves, channels mixed in neighbours; x [B, L, H, C]."""
  length, channels = x.shape[1], x.shape[3]
  rates = 10000.0 ** (-torch.arange(0, channels, 2) / channels)
  angles = torch.outer(torch.arange(length), rates)
  angles = torch.cat([angles, angles], -1)[:, None]
  mixed = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
  return x * angles.cos() + mixed * angles.sin()


def transformer(w, x, s):
  h = rms(x, w['norm1.weight'], 1e-6)
  parts = linear(w, 'attn.qkv', h).unflatten(-1, (3, s.heads, -1))
  q, k, v = parts.unbind(2)
  q, k = published_turn(q), published_turn(k)
  scores = torch.einsum('blhc,bmhc->bhlm', q, k) / q.shape[-1] ** 0.5
  future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
  shares = scores.masked_fill(future, -torch.inf).softmax(-1)
  y = torch.einsum('bhlm,bmhc->blhc', shares, v).flatten(-2)
  x = x + linear(w, 'attn.out_proj', y)
  h = rms(x, w['norm2.weight'], 1e-6)
  gate, value = linear(w, 'mlp.in_proj', h).chunk(2, -1)
  return x + linear(w, 'mlp.out_proj', f.silu(gate) * value)


def slice_layer(w, x, s):
  u = rms(x, w['norm1.weight'], 1e-6)
  size, outputs = len(w['slice.vf_A.weight']) // s.width, []
  y, before = w['slice.init'].expand(len(x), -1), torch.zeros_like(u[:, 0])
  for t in range(x.shape[1]):
    ones = torch.ones(len(x), 1)
    driven = 0.1 * torch.cat([ones, u[:, t] - before], -1)
    a = linear(w, 'slice.vf_A', driven).unflatten(-1, (-1, size, size))
    blocks = y.unflatten(-1, (-1, size))
    blocks = blocks + torch.einsum('bnij,bnj->bni', a, blocks)
    y = blocks.flatten(1) + linear(w, 'slice.vf_B', driven)
    outputs.append(y)
    before = u[:, t]
  x = x + torch.stack(outputs, 1)
  h = linear(w, 'token_mlp.0', rms(x, w['norm2.weight'], 1e-6))
  return x + linear(w, 'token_mlp.2', f.gelu(h))


def convolved(w, name, x):
  """Each channel alone, over the last four tokens."""
  channels = x.shape[-1]
  padded = f.pad(x.transpose(1, 2), (3, 0))
  bias = w.get(f'{name}.bias')
  y = f.conv1d(padded, w[f'{name}.weight'], bias, groups=channels)
  return f.silu(y.transpose(1, 2))


def deltanet(w, x, s, most=2.0):
  u = rms(x, w['attn_norm.weight'], 1e-6)
  q, k, v = (
    convolved(w, f'attn.{n}_conv1d', linear(w, f'attn.{n}_proj', u)).unflatten(
      -1, (s.heads, -1)
    )
    for n in 'qkv'
  )
  q, k = (y * (y.square().sum(-1, keepdim=True) + 1e-6).rsqrt() for y in (q, k))
  beta = most * linear(w, 'attn.b_proj', u).sigmoid()
  step = f.softplus(linear(w, 'attn.a_proj', u) + w['attn.dt_bias'])
  decay = (-w['attn.A_log'].exp() * step).exp()
  state, outputs = torch.zeros(len(x), s.heads, s.key, s.value), []
  for t in range(x.shape[1]):
    state = decay[:, t, :, None, None] * state
    lines = torch.einsum('bhk,bhkv->bhv', k[:, t], state)
    new = beta[:, t, :, None] * (v[:, t] - lines)
    state = state + k[:, t, :, :, None] * new[:, :, None]
    read = torch.einsum('bhk,bhkv->bhv', q[:, t], state)
    outputs.append(read / s.key**0.5)
  y = rms(torch.stack(outputs, 1), w['attn.o_norm.weight'], 1e-6)
  gate = linear(w, 'attn.g_proj', u).unflatten(-1, (s.heads, -1))
  x = x + linear(w, 'attn.o_proj', (y * f.silu(gate)).flatten(-2))
  h = rms(x, w['mlp_norm.weight'], 1e-6)
  h = f.silu(linear(w, 'mlp.gate_proj', h)) * linear(w, 'mlp.up_proj', h)
  return x + linear(w, 'mlp.down_proj', h)


def positive(w, x, s):
  return deltanet(w, x, s, most=1.0)


def mamba_block(mixer):
  """A mixer between norms, then an MLP whose second half is the gate."""

  def block(w, x, s):
    x = x + mixer(w, rms(x, w['norm.weight'], 1e-5), s)
    value, gate = linear(w, 'mlp.fc1', rms(x, w['norm2.weight'], 1e-5)).chunk(
      2, -1
    )
    return x + linear(w, 'mlp.fc2', value * f.silu(gate))

  return block


@mamba_block
def mamba2(w, u, s):
  inner, n = 2 * s.width, s.state
  heads = inner // s.channels
  sizes = inner, inner + 2 * n, heads
  z, mixed, step = linear(w, 'mixer.in_proj', u).split(sizes, -1)
  x, b, c = convolved(w, 'mixer.conv1d', mixed).split((inner, n, n), -1)
  x = x.unflatten(-1, (heads, -1))
  step = f.softplus(step + w['mixer.dt_bias'])
  decay = (-w['mixer.A_log'].exp() * step).exp()
  state, outputs = torch.zeros(len(u), heads, s.channels, n), []
  for t in range(u.shape[1]):
    new = torch.einsum('bhp,bn->bhpn', step[:, t, :, None] * x[:, t], b[:, t])
    state = decay[:, t, :, None, None] * state + new
    outputs.append(torch.einsum('bhpn,bn->bhp', state, c[:, t]))
  y = torch.stack(outputs, 1) + w['mixer.D'][:, None] * x
  y = rms(y.flatten(-2) * f.silu(z), w['mixer.norm.weight'], 1e-5)
  return linear(w, 'mixer.out_proj', y)


def rotated(x, angles, far):
  """Pairs of x [B, R, H, N] turned by angles [B, H, N / 4]; the rest is left.

  far: pairs are half of N apart (MIMO), or neighbours (SISO).
  """
  quarter, half = x.shape[-1] // 4, x.shape[-1] // 2
  first = torch.arange(quarter) * (1 if far else 2)
  second = first + (half if far else 1)
  cos, sin = angles.cos()[:, None], angles.sin()[:, None]
  y = x.clone()
  y[..., first] = x[..., first] * cos - x[..., second] * sin
  y[..., second] = x[..., first] * sin + x[..., second] * cos
  return y


@mamba_block
def mamba3(w, u, s):
  inner, n = 2 * s.width, s.state
  heads, rank = w['mixer.B_bias'].shape[:2]
  sizes = inner, inner, rank * n, rank * n, heads, heads, heads, n // 4
  z, x, b, c, step, a, trap, turn = linear(w, 'mixer.in_proj', u).split(
    sizes, -1
  )
  z, x = z.unflatten(-1, (heads, -1)), x.unflatten(-1, (heads, -1))
  step = f.softplus(step + w['mixer.dt_bias'])
  decay = ((-f.softplus(a)).clamp(max=-1e-4) * step).exp()
  b, c = (
    rms(y.unflatten(-1, (rank, n)), w[f'mixer.{k}_norm.weight'], 1e-5)
    for k, y in (('B', b), ('C', c))
  )
  spread, gates, collect = (
    w.get(f'mixer.mimo_{k}', torch.ones(heads, 1, 1)).transpose(0, 1)
    for k in 'xzo'
  )
  bias_b, bias_c = (w[f'mixer.{k}_bias'].transpose(0, 1) for k in 'BC')
  state = torch.zeros(len(u), heads, s.channels, n)
  late, angles, outputs = torch.zeros_like(state), 0, []
  for t in range(u.shape[1]):
    angles = angles + math.pi * (turn[:, t, None].tanh() * step[:, t, :, None])
    key, query = (
      rotated(y[:, t, :, None] + bias, angles, rank > 1)
      for y, bias in ((b, bias_b), (c, bias_c))
    )
    inputs = x[:, t, None] * spread
    new = torch.einsum('brhp,brhn->bhpn', inputs, key)
    share = trap[:, t, :, None, None].sigmoid()
    size, keep = step[:, t, :, None, None], decay[:, t, :, None, None]
    state = keep * (state + (1 - share) * size * late) + share * size * new
    late = new
    y = torch.einsum('bhpn,brhn->brhp', state, query)
    y = y + w['mixer.D'][:, None] * inputs
    y = collect * y * f.silu(z[:, t, None] * gates)
    outputs.append(y.sum(1))
  return linear(w, 'mixer.out_proj', torch.stack(outputs, 1).flatten(-2))


# Family -> shapes, layer, epsilon of the final norm, flagfile of the paper.
FAMILIES = {
  'transformer': (transformer_shapes, transformer, 1e-6),
  'slice': (slice_shapes, slice_layer, 0),
  'slice_diagonal': (diagonal_shapes, slice_layer, 0),
  'deltanet': (deltanet_shapes, deltanet, 1e-6),
  'deltanet_positive': (deltanet_shapes, positive, 1e-6),
  'mamba2': (mamba2_shapes, mamba2, 1e-5),
  'mamba3': (mamba3_shapes, mamba3, 1e-5),
  'mamba3_mimo': (mimo_shapes, mamba3, 1e-5),
}
POSITIVE = {'gated_deltanet_allow_neg_eigval': False}


def weights_of(family):
  torch.manual_seed(0)
  return {
    # Norms and biases are not what they begin with.
    name: torch.randn(shape) * (0.5 if len(shape) > 1 else 1)
    for name, shape in FAMILIES[family][0](Sizes()).items()
  }


def settings_of(family):
  more = POSITIVE if family == 'deltanet_positive' else {}
  return {'n_heads': 2, 'slice_scale': 0.1, 'lr': 1e-3, 'wandb': None, **more}


def saved(path, weights, settings):
  """As their program saves it, after torch.compile."""
  state = {f'_orig_mod.{name}': value for name, value in weights.items()}
  torch.save(
    {
      'model': state,
      'optim': {'state': {0: {'step': torch.tensor(3.0)}}, 'param_groups': []},
      'step': 3,
      'spec': {'move_vocab': V, 'pad_move_id': V - 1},
      'args': settings,
      'torch_version': torch.__version__,
    },
    path,
  )


def logits(family, weights, moves):
  """[B, L, 1878] of their ids [B, L]."""
  _, layer, epsilon = FAMILIES[family]
  weights = {k.removeprefix('backbone.'): x for k, x in weights.items()}
  tables = 'tok_emb', 'embedding', 'embeddings'
  (table,) = (x for k, x in weights.items() if k.split('.')[0] in tables)
  x = table[torch.from_numpy(moves)]
  for n in range(Sizes().layers):
    leads = f'blocks.{n}.', f'layers.{n}.'
    block = {
      name.removeprefix(lead): value
      for name, value in weights.items()
      for lead in leads
      if name.startswith(lead)
    }
    x = layer(block, x, Sizes())
  if epsilon:
    scale = weights.get('final_norm.weight', weights.get('norm.weight'))
    x = rms(x, scale, epsilon)
  return linear(weights, 'output_head', x).numpy()


def games():
  """Our tokens [B, L] and their ids: packed moves, and 20480 to start."""
  world = registry.make('world', WORLD)
  tokens = world.sample(3, 0).tokens
  moves = world.packed[tokens].astype(np.int64)
  moves[:, 0] = 20480
  return world, tokens, moves


@pytest.mark.parametrize('family', FAMILIES)
def test_logits_are_those_of_the_layers_written_out(tmp_path, family):
  weights, (world, tokens, moves) = weights_of(family), games()
  saved(tmp_path / 'latest.pt', weights, settings_of(family))
  checkpoint = import_checkpoint.read(tmp_path / 'latest.pt')
  model = checkpoint.model(world.max_len)
  shape = network.NetworkSpec(model, len(world.vocab), world.max_len, LOGITS)
  ids = import_checkpoint.order(world.vocab, checkpoint.layout.words(world))
  params = import_checkpoint.params(checkpoint, shape, ids)
  unused = (V - len(world.vocab)) * Sizes().width
  assert shape.num_params + unused == sum(x.numel() for x in weights.values())
  want = logits(family, weights, moves)
  assert want.std() > 0.5
  # A token in the middle matters to all later ones, so that state is tested.
  moved = moves.copy()
  moved[:, 3] = 5
  assert np.abs(logits(family, weights, moved) - want)[:, -1].max() > 1e-3
  net = nnx.merge(shape.graph, params)
  np.testing.assert_allclose(net(tokens), want, atol=1e-4)


@pytest.mark.parametrize('family', list(FAMILIES)[:-1])
def test_models_are_those_of_the_flagfiles(family):
  zero = np.zeros((), np.float32)
  shapes = FAMILIES[family][0](Sizes(paper=True)).items()
  # As read: by names without what leads them.
  weights = import_checkpoint.Weights(
    (name.removeprefix('backbone.'), np.broadcast_to(zero, shape))
    for name, shape in shapes
  )
  (layout,) = (x for x in import_checkpoint.LAYOUTS if x.mark in weights)
  more = POSITIVE if family == 'deltanet_positive' else {}
  settings = import_checkpoint.PUBLISHED | more
  model = import_checkpoint.Checkpoint(layout, weights, settings).model(705)
  flags = f'launch/flags/chess2026/sizes/{family}_d128.flags'
  with open(flags, encoding='utf-8') as file:
    lines = file.read().splitlines()
  (spec,) = (x for x in lines if x.startswith('--model='))
  spec = spec.removeprefix('--model=')
  # As it was run, and evaluated: their rotation, and 32 bits.
  spec = spec.replace("'rotary'", "'rotary_published'")
  spec = spec.replace(", dtype='bfloat16'", '')
  theirs = registry.spec(registry.make('model', spec))
  assert registry.spec(model).replace('heads=0, ', '') == theirs.replace(
    'heads=2, ', '' if family == 'transformer' else 'heads=2, '
  )


def test_an_import_is_a_run_that_names_states(tmp_path):
  weights, (world, tokens, moves) = weights_of('mamba2'), games()
  saved(tmp_path / 'latest.pt', weights, settings_of('mamba2'))
  run = tmp_path / 'run'
  summary = wm.import_gpt2(tmp_path / 'latest.pt', WORLD, run)
  assert summary['model'].startswith('mamba2(')
  loaded = wm.load_predictor(run)
  lengths = np.full(len(tokens), tokens.shape[1])
  states = loaded.predictor.states(tokens, lengths)
  parts = np.split(
    logits('mamba2', weights, moves), np.cumsum(world.heads.sizes)[:-1], -1
  )
  want = np.stack([part.argmax(-1) for part in parts], -1)
  np.testing.assert_array_equal(states, want)
  entries = wm.score(loaded, 'exactness(num=3)')
  quantities = {entry['quantity']: entry['value'] for entry in entries}
  assert 0 < quantities['labelwise'] < 1


@pytest.mark.parametrize(
  ('family', 'changes', 'settings', 'message'),
  [
    ('slice', {}, {'slice_ff_activation': 'tanh'}, "ation='tanh', which no"),
    ('slice', {'final_norm.weight': 8}, {}, 'no place for final_norm.weight'),
    ('slice', {'layers.1.slice.init': 0}, {}, r'lacks layers\.1\.slice\.init'),
    ('mamba2', {'layers.0.mixer.x_proj.weight': 8}, {}, 'is of Mamba-1'),
    ('mamba2', {}, {'mamba_ngroups': 2}, 'mamba_ngroups=2, which no'),
    ('mamba3', {'layers.0.mixer.norm.weight': 8}, {}, 'no place for layers'),
    ('mamba3', {}, {'mamba3_rope_fraction': 1.0}, 'expected 0.5'),
    ('deltanet', {}, {'gated_deltanet_allow_neg_eigval': 'x'}, 'negative'),
    ('transformer', {'output_head.bias': 9}, {}, r'takes \(1878,\)'),
    ('transformer', {}, {'n_heads': 3}, 'not a multiple'),
  ],
)
def test_what_does_not_fit_is_one_line_and_leaves_nothing(
  tmp_path, family, changes, settings, message
):
  weights = weights_of(family)
  for name, size in changes.items():
    weights[name] = torch.ones(size)
    if not size:
      del weights[name]
  saved(tmp_path / 'latest.pt', weights, settings_of(family) | settings)
  with pytest.raises(core.InputError, match=message) as error:
    wm.import_gpt2(tmp_path / 'latest.pt', WORLD, tmp_path / 'run')
  assert '\n' not in str(error.value)
  assert not (tmp_path / 'run').exists()


def test_other_worlds_and_models_are_refused(tmp_path):
  path, run = tmp_path / 'latest.pt', tmp_path / 'run'
  saved(path, weights_of('slice'), settings_of('slice'))
  with pytest.raises(core.InputError, match='words of the world are not in'):
    wm.import_gpt2(path, 'lattice(size=4)', run)
  with pytest.raises(core.InputError, match=r'is no slice\(\.\.\.\)'):
    wm.import_gpt2(path, WORLD, run, model='rnn()')
  with pytest.raises(core.InputError, match='gives its states no labels'):
    wm.import_gpt2(path, 'orbits()', run)
  saved(path, weights_of('transformer'), settings_of('transformer'))
  model = "transformer(width=8, heads=2, norm='rms', positions='rotary')"
  with pytest.raises(
    core.InputError, match="positions='rotary_published', not"
  ):
    wm.import_gpt2(path, WORLD, run, model=model)
  assert not run.exists()
