"""What the tests with frameworks share: a learnable dataset on a daemon, or a skip without them."""

import importlib
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from support import Case, main, write_ids  # noqa: E402,F401


def need(*names):
    """The modules, or an exit that ctest takes for a skip."""
    try:
        return [importlib.import_module(name) for name in names]
    except ImportError as e:
        print(f"skipped: {e}")
        sys.exit(77)


class Learnable(Case):
    """y = 3 a - b + 1 over 60 rows."""

    ROWS = 60

    def setUp(self):
        super().setUp()
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

        def row(i):
            a, b = i % 7 / 7, i % 5 / 5
            return {"x": [a, b], "y": [3 * a - b + 1]}

        write_ids(self.data, [25, 35], extra=row)
        self.server = self.enterContext(self.daemon(workers=2))

    def open(self, batch=8, mode="SHARDED", repeat=20, **options):
        import stoker
        spec = (stoker.Spec("learn", files=self.data / "part-*")
                .order(shuffle="GLOBAL", seed=7, repeat=repeat)
                .tensor("id", "INT64").tensor("x", "FLOAT32", shape=2)
                .tensor("y", "FLOAT32", shape=1).batch(batch).delivery(mode=mode))
        stream = stoker.open(spec, socket=self.server.run / "attach.sock", **options)
        self.addCleanup(stream.close)
        return stream
