"""Keras itself trains on real batches; the backend is KERAS_BACKEND's."""

import unittest

from frameworks import Learnable, main, need

keras, = need("keras")

import numpy  # noqa: E402

import stoker.keras  # noqa: E402


class Recorded(stoker.keras.Data):
    """Writes down which batch went where."""

    def _pick(self, batch, copy):
        self.seen.append((batch.epoch, batch.step))
        return super()._pick(batch, copy)


class Keras(Learnable):
    def model(self):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
        return model

    def test_fit_trains_every_epoch_whole_and_the_loss_falls(self):
        stream = self.open()
        data = Recorded(stream, "x", "y")
        data.seen = []
        model = self.model()
        history = model.fit(data, epochs=20, verbose=0,
                            callbacks=[stoker.keras.LogWait(stream)]).history
        self.assertLess(history["loss"][-1], history["loss"][0] / 20)
        self.assertEqual(len(history["stoker/wait_share"]), 20)
        self.assertTrue(all(0 <= share <= 1 for share in history["stoker/wait_share"]))
        self.assertTrue(all(rate > 0 for rate in history["stoker/rows_per_second"]))
        self.assertEqual(int(model.optimizer.iterations), 20 * 8)
        # A look of Keras's is followed by the same batch again; nothing else is.
        trained = [b for b, after in zip(data.seen, [*data.seen[1:], None]) if after != (0, 0)]
        if keras.backend.backend() == "tensorflow":  # reads ahead, and leaves what it read
            trained = data.seen[-20 * 8:]
        self.assertEqual(trained, [(e, s) for e in range(20) for s in range(8)])

    @unittest.skipIf(keras.backend.backend() == "tensorflow", "it reads ahead")
    def test_epochs_of_one_batch_are_all_trained(self):
        data = Recorded(self.open(batch=60, repeat=3), "x", "y")
        data.seen = []
        self.model().fit(data, epochs=3, verbose=0)
        self.assertEqual(data.seen, [(0, 0), (0, 0), (1, 0), (2, 0)])

    def test_evaluate_and_predict_see_every_row(self):
        model = self.model()
        self.assertEqual(model.predict(stoker.keras.Data(self.open(), "x"), verbose=0).shape,
                         (60, 1))

    def test_a_shared_stream_trains_too(self):
        stream = self.open(mode="BROADCAST")
        history = self.model().fit(stoker.keras.Data(stream, "x", "y"), epochs=2, verbose=0).history
        self.assertEqual(len(history["loss"]), 2)


if __name__ == "__main__":
    print("backend:", keras.backend.backend(), keras.__version__, numpy.__version__)
    main()
