"""TensorFlow's own datasets over real batches."""

from frameworks import Learnable, main, need

tf, = need("tensorflow")

import stoker  # noqa: E402
import stoker.tf  # noqa: E402


class TensorFlow(Learnable):
    def test_each_iteration_is_an_epoch_with_every_row(self):
        data = stoker.tf.dataset(self.open(repeat=2), ["id", "x"])
        self.assertEqual(data.element_spec, {"id": tf.TensorSpec([None], tf.int64),
                                             "x": tf.TensorSpec([None, 2], tf.float32)})
        self.assertEqual(int(data.cardinality()), 8)
        orders = [[i for batch in data for i in batch["id"].numpy().tolist()] for _ in range(2)]
        self.assertEqual([sorted(ids) for ids in orders], [list(range(60))] * 2)
        self.assertNotEqual(orders[0], orders[1])

    def test_elements_outlive_many_more_batches(self):
        data = stoker.tf.dataset(self.open(repeat=1), ["id"])
        kept = [batch["id"] for batch in data.prefetch(6)]
        self.assertEqual(sorted(int(i) for ids in kept for i in ids), list(range(60)))

    def test_a_feature_dictionary_reads_what_parse_example_reads(self):
        features = {"id": tf.io.FixedLenFeature([], tf.int64),
                    "x": tf.io.FixedLenFeature([2], tf.float32),
                    "absent": tf.io.FixedLenFeature([], tf.int64, default_value=5),
                    "y": tf.io.VarLenFeature(tf.float32)}
        spec = stoker.from_features(features, name="parsed", files=self.data / "part-*",
                                    batch_size=60)
        batch = stoker.open(spec, socket=self.server.run / "attach.sock").next()
        records = tf.data.TFRecordDataset(sorted(map(str, self.data.glob("part-*"))))
        want = tf.io.parse_example(list(records), features)
        for name in "id", "x", "absent":
            self.assertEqual(memoryview(batch[name]).tolist(), want[name].numpy().tolist())
        self.assertEqual(memoryview(batch["y"]).tolist(), want["y"].values.numpy().tolist())


if __name__ == "__main__":
    main()
