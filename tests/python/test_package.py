"""What the package brings into a process, and the texts that it writes."""

import collections
import os
import pathlib
import subprocess
import sys
import unittest

os.environ.setdefault("STOKER_BIN", "unused")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

import stoker  # noqa: E402
from stoker import _native, _spec  # noqa: E402


def lines(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


class Package(unittest.TestCase):
    def test_the_extension_needs_libstdcxx_and_libc_alone(self):
        needed = {line.split("[")[1].rstrip("]").split(".so")[0]
                  for line in lines("readelf", "-d", _native.__file__) if "(NEEDED)" in line}
        self.assertLessEqual(needed, {"libstdc++", "libgcc_s", "libm", "libc", "ld-linux-x86-64",
                                      "ld-linux-aarch64"})
        self.assertIn("libc", needed)

    def test_the_extension_gives_away_its_entry_alone(self):
        symbols = {line.split()[-1] for line in lines("nm", "-D", "--defined-only",
                                                      _native.__file__)}
        self.assertEqual(symbols, {"PyInit__native"})

    def test_importing_it_imports_no_framework(self):
        program = ("import sys, stoker; print(sorted({'numpy', 'torch', 'tensorflow', 'jax', "
                   "'keras', 'google.protobuf', 'grpc'} & set(sys.modules)))")
        self.assertEqual(lines(sys.executable, "-c", program), ["[]"])

    def test_it_is_marked_as_typed(self):
        self.assertTrue(pathlib.Path(stoker.__file__).with_name("py.typed").exists())


class Texts(unittest.TestCase):
    def test_a_built_spec_is_text_format(self):
        spec = (stoker.Spec("a", files=["x", 'q"\\\n'], on_bad_record="SKIP")
                .order(shuffle="GLOBAL", seed=7, reshuffle=False)
                .tensor("t", "FLOAT32", shape=[2, 3],
                        op=[{"normalize": {"mean": [0.5], "std": [1e-9]}}, {"reshape": {}}])
                .batch(8).delivery(slots=2).cache(tier="ENCODED"))
        self.assertEqual(spec.text(), r'''name: "a"
source { files: "x" files: "q\042\134\012" on_bad_record: SKIP }
tensor { name: "t" dtype: FLOAT32 shape: 2 shape: 3 op { normalize { mean: 0.5 std: 1e-09 } } op { reshape {  } } }
order { shuffle: GLOBAL seed: 7 reshuffle: false }
batch { size: 8 }
delivery { slots: 2 }
cache { tier: ENCODED }
''')

    def test_a_value_that_is_no_name_is_refused(self):
        with self.assertRaisesRegex(ValueError, "shuffle"):
            stoker.Spec("a", files="x").order(shuffle="GLOBAL } tensor {").text()

    def test_files_in_sources_alone_become_absolute(self):
        text = '''name: "n" # files: "c"
source { files: "a" files: ['b', "/c"] crc: FULL } source: < files: "d" "e" >
tensor { name: "files" feature: "f" } other { source { files: "g" } }'''
        self.assertEqual(_spec.absolute(text, "/d\"ir"), r'''name: "n" # files: "c"
source { files: "/d\042ir/" "a" files: ["/d\042ir/" 'b', "/c"] crc: FULL } source: < files: "/d\042ir/" "d" "e" >
tensor { name: "files" feature: "f" } other { source { files: "g" } }''')

    def test_parse_examples_features_become_tensors(self):
        dtype = collections.namedtuple("DType", "name")
        fixed = collections.namedtuple("FixedLenFeature", "shape dtype default_value")
        var = collections.namedtuple("VarLenFeature", "dtype")
        ragged = collections.namedtuple("RaggedFeature", "dtype value_key partitions")
        seq = collections.namedtuple("FixedLenSequenceFeature", "shape dtype default_value")
        sparse = collections.namedtuple("SparseFeature", "dtype")
        spec = stoker.from_features({
            "label": fixed([], dtype("int64"), -1), "x": fixed((2,), dtype("float32"), None),
            "s": fixed([], dtype("string"), "a"), "v": var(dtype("int64")),
            "r": ragged(dtype("int64"), "stored", ()), "q": seq([], dtype("int64"), None),
        }, name="n", files="/f", batch_size=3)
        self.assertEqual(spec.text(), '''name: "n"
source { files: "/f" }
tensor { name: "label" dtype: INT64 default_value { int64_value: -1 } }
tensor { name: "x" dtype: FLOAT32 shape: 2 }
tensor { name: "s" dtype: BYTES default_value { bytes_value: "a" } }
tensor { name: "v" dtype: INT64 ragged {  } }
tensor { name: "r" dtype: INT64 feature: "stored" ragged {  } }
tensor { name: "q" dtype: INT64 padded {  } }
batch { size: 3 }
''')
        with self.assertRaisesRegex(ValueError, "k: SparseFeature"):
            stoker.from_features({"k": sparse(dtype("int64"))}, name="n", files="/f", batch_size=1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
