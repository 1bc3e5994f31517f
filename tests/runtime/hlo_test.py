"""Work that is read from programs: known answers, and XLA's own programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wm import core
from wm.runtime import hlo

LOOP = """
HloModule known, num_partitions=4

%body (p: STATE) -> STATE {
  %p = STATE parameter(0)
  %n = s32[] get-tuple-element(%p), index=0
  %x = f32[8,16]{1,0} get-tuple-element(%p), index=1
  %all = f32[5,16,16]{2,1,0} get-tuple-element(%p), index=2
  %cut = f32[1,16,16]{2,1,0} dynamic-slice(%all, %n, %n, %n), \
dynamic_slice_sizes={1,16,16}
  %w = f32[16,16]{1,0} bitcast(%cut)
  %y = f32[8,16]{1,0} dot(%x, %w), lhs_contracting_dims={1}, \
rhs_contracting_dims={0}
  %z = f32[8,16]{1,0} all-reduce(%y), channel_id=1, \
replica_groups=[2,2]<=[4], to_apply=%sum
  %one = s32[] constant(1)
  %next = s32[] add(%n, %one)
  ROOT %t = STATE tuple(%next, %z, %all)
}

%test (p.1: STATE) -> pred[] {
  %p.1 = STATE parameter(0)
  %n.1 = s32[] get-tuple-element(%p.1), index=0
  %end = s32[] constant(END)
  ROOT %less = pred[] compare(%n.1, %end), direction=LT
}

ENTRY %main (a: f32[8,16], b: f32[5,16,16]) -> f32[8,16] {
  %a = f32[8,16]{1,0} parameter(0)
  %b = f32[5,16,16]{2,1,0} parameter(1)
  %start = s32[] constant(0)
  %t.1 = STATE tuple(%start, %a, %b)
  %loop = STATE while(%t.1), condition=%test, body=%body
  ROOT %r = f32[8,16]{1,0} get-tuple-element(%loop), index=1
}
""".replace('STATE', '(s32[], f32[8,16]{1,0}, f32[5,16,16]{2,1,0})')


def test_a_loop_counts_as_often_as_it_runs():
  work = hlo.Program(LOOP.replace('END', '5')).work
  assert work.flops == 5 * 2 * 8 * 16 * 16
  assert (work.depth, work.unknown) == (5, 0)
  # Among 2 devices half of 512 bytes goes round twice.
  assert work.messages == {'all-reduce': [5, 5 * 512]}
  # The slice is read and written, then read by the product; x comes and goes,
  # the sum too; the counter takes 12.
  assert work.bytes == 5 * (3 * 1024 + 4 * 512 + 12)


def test_a_loop_of_unknown_length_counts_once():
  text = LOOP.replace('s32[] constant(END)', 's32[] negate(%n.1)')
  work = hlo.Program(text).work
  assert (work.flops, work.unknown) == (2 * 8 * 16 * 16, 1)


def test_a_loop_may_take_several_at_a_time():
  text = LOOP.replace('END', '5').replace(
    'one = s32[] constant(1)', 'one = s32[] constant(2)'
  )
  assert hlo.Program(text).work.depth == 3


def test_a_message_that_is_cut_into_parts_is_one():
  line = next(x for x in LOOP.splitlines() if 'all-reduce(' in x)
  again = line.replace('%z ', '%again ')
  text = LOOP.replace(line, f'{line}\n{again}').replace('END', '5')
  assert hlo.Program(text).work.messages == {'all-reduce': [5, 5 * 512]}


@pytest.mark.parametrize(
  ('text', 'devices'),
  [
    ('replica_groups={{0,1,2},{3,4,5}}', 3),
    ('replica_groups=[4,2]<=[8]', 2),
    ("replica_groups=mesh['a'=4,'b'=2] {'a'}", 4),
    ("replica_groups=mesh['a'=4,'b'=2] {'a','b'}", 8),
    ('', 1),
  ],
)
def test_groups_of_devices(text, devices):
  assert hlo._group(text) == devices


def test_local_memory_is_no_traffic():
  one, other = hlo.arrays('(bf16[2,3]{1,0:T(8,128)(2,1)S(1)}, pred[4]{0})')
  assert (one.shape, one.bytes, one.local) == ((2, 3), 12, True)
  assert (other.bytes, other.local) == (4, False)


def test_products_as_windows_of_a_tpu():
  """Heads are a window over dilated zeros, of which none is multiplied."""
  text = """
ENTRY %main (a: f32[2,32,31,31], b: f32[32,2,31,31]) -> f32[32,2,31,31] {
  %a = f32[32,2,31,16]{3,2,1,0} parameter(0)
  %b = f32[32,2,31,16]{3,2,1,0} parameter(1)
  ROOT %c = f32[32,2,31,31]{2,3,1,0} convolution(%a, %b), \
window={size=32x2 stride=31x1 lhs_dilate=32x2}, dim_labels=01bf_01oi->01bf
}
"""
  assert hlo.Program(text).work.flops == 2 * 32 * 2 * 31 * 31 * 16


@pytest.mark.parametrize('scanned', [True, False])
def test_a_compiled_chain_is_its_formula(scanned):
  """Forward, and twice as much back, whether layers are scanned or not."""

  def loss(weights, x):
    if scanned:
      step = lambda x, w: (jnp.tanh(x @ w), None)  # noqa: E731
      return jax.lax.scan(step, x, weights)[0].sum()
    for w in weights:
      x = jnp.tanh(x @ w)
    return x.sum()

  weights = jax.ShapeDtypeStruct((6, 32, 32), np.float32)
  x = jax.ShapeDtypeStruct((24, 32), np.float32)
  gradient = jax.jit(jax.grad(loss, argnums=(0, 1)))
  compiled = gradient.lower(weights, x).compile()
  work = hlo.Program(compiled.as_text()).work
  assert work.flops == 3 * 6 * 2 * 24 * 32 * 32
  assert (work.depth, work.unknown) == (12 * scanned, 0)


NESTED = """
HloModule nested

%cut (p.0: f32[5,16,16], p.1: s32[]) -> f32[1,16,16] {
  %p.0 = f32[5,16,16]{2,1,0} parameter(0)
  %p.1 = s32[] parameter(1)
  ROOT %part = f32[1,16,16]{2,1,0} dynamic-slice(%p.0, %p.1, %p.1, %p.1), \
dynamic_slice_sizes={1,16,16}
}

%outer (q.0: f32[8,16], q.1: f32[5,16,16], q.2: s32[]) -> f32[8,16] {
  %q.0 = f32[8,16]{1,0} parameter(0)
  %q.1 = f32[5,16,16]{2,1,0} parameter(1)
  %q.2 = s32[] parameter(2)
  %view = f32[5,16,16]{2,1,0} bitcast(%q.1)
  %inner = f32[1,16,16]{2,1,0} fusion(%view, %q.2), kind=kLoop, calls=%cut
  %w = f32[16,16]{1,0} bitcast(%inner)
  ROOT %y = f32[8,16]{1,0} dot(%q.0, %w), lhs_contracting_dims={1}, \
rhs_contracting_dims={0}
}

ENTRY %main (a: f32[8,16], b: f32[5,16,16], n: s32[]) -> f32[8,16] {
  %a = f32[8,16]{1,0} parameter(0)
  %b = f32[5,16,16]{2,1,0} parameter(1)
  %n = s32[] parameter(2)
  EXTRA
  ROOT %r = f32[8,16]{1,0} fusion(%a, %b, %n), kind=kOutput, calls=%outer
}
"""


@pytest.mark.parametrize(
  ('extra', 'more'),
  [
    ('', 0),
    ('%new = f32[99] custom-call(), custom_call_target="AllocateBuffer"', 0),
    ('%new = f32[99] custom-call(), custom_call_target="other"', 396),
    (  # Two rows go to memory beside the arithmetic: read, not written.
      '%s = ((f32[8,16]), f32[2,16]{1,0:S(1)}, s32[]) slice-start(%a), '
      'slice={[0:2], [0:16]}',
      2 * 16 * 4,
    ),
  ],
)
def test_a_part_that_a_fusion_in_a_fusion_reads(extra, more):
  work = hlo.Program(NESTED.replace('EXTRA', extra)).work
  # x and the sum, a slice of five, the slice's number.
  assert work.bytes == 2 * 512 + 1024 + 4 + more


@pytest.mark.parametrize(
  ('groups', 'devices'),
  [
    ('[2,2]<=[4]', 2),
    ('{{0,1,2,3}}', 4),
    ("mesh['axis_0'=4,'axis_1'=2] {'axis_1'}", 2),
    (
      "mesh['a'=1,'b'=4,'c'=2], device_ids=([2,4]T(1,0)) {'b','c'}",
      8,
    ),
  ],
)
def test_devices_of_a_collective(groups, devices):
  text = LOOP.replace('END', '5').replace('[2,2]<=[4]', groups)
  (num, sent) = hlo.Program(text).work.messages['all-reduce']
  assert (num, sent) == (5, 5 * 2 * 512 * (devices - 1) / devices)


def test_devices_that_cannot_be_read_are_not_counted_as_none():
  text = LOOP.replace('END', '5').replace('[2,2]<=[4]', 'rings(4)')
  with pytest.raises(core.InputError, match=r'cannot be read: rings'):
    _ = hlo.Program(text).work
