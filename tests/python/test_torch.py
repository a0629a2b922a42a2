"""torch itself on real batches."""

from frameworks import Learnable, main, need

torch, = need("torch")

import stoker.torch  # noqa: E402


class Torch(Learnable):
    def test_a_loss_falls(self):
        loader = stoker.torch.Loader(self.open())
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        losses = []
        for _ in range(20):
            for batch in loader:
                loss = torch.nn.functional.mse_loss(model(batch["x"]), batch["y"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(float(loss))
        self.assertEqual(len(losses), 20 * len(loader))
        self.assertLess(losses[-1], losses[0] / 10)

    def test_an_exclusive_slot_is_written_in_place(self):
        batch = self.open().next()
        tensor = stoker.torch.tensors(batch)["x"]
        tensor.add_(1)
        self.assertEqual(memoryview(batch["x"]).tolist(), tensor.tolist())

    def test_a_shared_slot_is_copied_unless_it_is_only_read(self):
        batch = self.open(mode="BROADCAST").next()
        before = memoryview(batch["x"]).tolist()
        copy = stoker.torch.tensors(batch)["x"]
        copy.zero_()
        self.assertEqual(memoryview(batch["x"]).tolist(), before)
        lent = stoker.torch.tensors(batch, writable=False)
        again = stoker.torch.tensors(batch, writable=False)
        self.assertEqual(lent["x"].data_ptr(), again["x"].data_ptr())
        self.assertEqual(lent["x"].tolist(), before)

    def test_a_state_dict_goes_on_after_the_last_batch_given(self):
        loader = stoker.torch.Loader(self.open())
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        want = [batch["id"].tolist() for batch in iterator]
        loader.load_state_dict(state)
        self.assertEqual([batch["id"].tolist() for batch in loader], want)


if __name__ == "__main__":
    main()
