"""Whatever is imported first, all of it works in one process."""

import itertools
import subprocess
import sys
import unittest

from frameworks import main, need

need("tensorflow", "torch")


class Imports(unittest.TestCase):
    def test_every_order_of_frameworks_and_stoker(self):
        work = ("assert tensorflow.constant([1]).numpy()[0] + int(torch.ones(1)) == 2\n"
                "try: stoker.attach('x', socket='/nowhere')\n"
                "except stoker.Unavailable: print('well')\n")
        for order in itertools.permutations(("tensorflow", "torch", "stoker")):
            with self.subTest(order=order):
                program = "".join(f"import {name}\n" for name in order) + work
                done = subprocess.run([sys.executable, "-c", program], capture_output=True,
                                      text=True)
                self.assertEqual((done.returncode, done.stdout), (0, "well\n"), done.stderr)


if __name__ == "__main__":
    main()
