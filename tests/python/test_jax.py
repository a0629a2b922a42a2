"""JAX itself on real batches."""

from frameworks import Learnable, main, need

jax, jnp = need("jax", "jax.numpy")

import numpy  # noqa: E402

import stoker.jax  # noqa: E402


class Jax(Learnable):
    def test_a_loss_falls(self):
        stream = self.open()

        @jax.jit
        def step(w, x, y):
            def loss(w):
                return jnp.mean((x @ w[:2, None] + w[2] - y) ** 2)
            value, slope = jax.value_and_grad(loss)(w)
            return w - 0.3 * slope, value

        w = jnp.zeros(3)
        losses = []
        for _ in range(20):
            for arrays in stoker.jax.epoch(stream):
                w, value = step(w, arrays["x"], arrays["y"])
                losses.append(float(value))
        self.assertEqual(len(losses), 20 * 8)
        self.assertLess(losses[-1], losses[0] / 20)

    def test_an_array_never_changes_while_batches_go_by(self):
        for mode in "SHARDED", "BROADCAST":
            for copy in False, True:
                stream = self.open(mode=mode)
                batch = stream.next()
                want = numpy.array(batch["x"])
                kept = stoker.jax.arrays(batch, copy=copy)["x"]
                del batch
                for _ in range(30):
                    if stream.next() is None:
                        continue
                numpy.testing.assert_array_equal(numpy.asarray(kept), want)
                del kept
                stream.close()

    def test_the_array_is_the_slot_itself(self):
        batch = self.open().next()
        array = stoker.jax.arrays(batch)["x"]
        self.assertEqual(array.unsafe_buffer_pointer(), numpy.asarray(batch["x"]).ctypes.data)


if __name__ == "__main__":
    main()
