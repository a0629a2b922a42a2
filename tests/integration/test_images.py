"""Images through the daemon: PNGs and JPEGs side by side, masks that follow their images."""

import json
import random
import struct
import zlib

from jpeg import tiny_jpeg
from support import Case, example, main, write_records


def png(rows, depth=8):
    """Gray rows as a PNG, written from its specification."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(
            ">I", zlib.crc32(kind + data))
    pack = "B" if depth == 8 else "H"
    data = b"".join(b"\0" + struct.pack(f">{len(r)}{pack}", *r) for r in rows)
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), depth, 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) +
            chunk(b"IEND", b""))


def picture(number, height=14, width=18):
    generator = random.Random(number)
    return [[generator.randrange(256) for _ in range(width)] for _ in range(height)]


class Images(Case):
    def write(self, examples):
        return write_records(self.folder / "images", [example(e) for e in examples])

    def text(self, name, tensors, batch="size: 8"):
        return self.spec(f"""name: "{name}" source {{ files: {json.dumps(str(self.folder / "images"))}
            bad_row: MASK on_bad_record: SKIP
            max_bad_records: 1000 }} order {{ seed: 5 repeat: 2 }} {tensors}
            batch {{ {batch} }}""", name)

    def test_a_mask_follows_its_image(self):
        self.write([{"image": [png(picture(i))], "mask": [png(picture(i))]} for i in range(40)])
        geometry = """op { random_resized_crop { height: 6 width: 7 method: NEAREST } }
            op { random_flip_horizontal {} } op { random_flip_vertical {} }"""
        alike = f"""tensor {{ name: "image" group: "g" dtype: UINT8 image {{ channels: 1 }} {geometry} }}
            tensor {{ name: "mask" group: "g" dtype: UINT8 image {{ channels: 1 }} {geometry} }}"""
        with self.daemon() as daemon:
            rows = daemon.dump(self.text("alike", alike))
            apart = daemon.dump(self.text("apart", alike.replace('group: "g"', "")))
        self.assertGreaterEqual(len(rows), 40)
        for row in rows:
            self.assertEqual(row["tensors"]["image"], row["tensors"]["mask"])
        same = sum(r["tensors"]["image"] == r["tensors"]["mask"] for r in apart)
        self.assertLess(same, len(apart) / 4)

    def test_members_that_crop_apart_are_refused(self):
        self.write([{"image": [png(picture(1))], "mask": [png(picture(1))]}])
        tensors = """tensor { name: "image" group: "g" dtype: UINT8 image { channels: 1 }
                op { random_crop { height: 6 width: 7 } } }
            tensor { name: "mask" group: "g" dtype: UINT8 image { channels: 1 }
                op { random_crop { height: 7 width: 7 } } }"""
        with self.daemon() as daemon:
            done = daemon.stoker("read", self.text("refused", tensors), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("op[0]", done.stderr)

    def test_sixteen_bits_are_exact_and_eight_are_times_257(self):
        deep = [[256 * y + x for x in range(18)] for y in range(14)]
        self.write([{"image": [png(deep, 16)]}, {"image": [png(picture(3))]}])
        tensors = """tensor { name: "image" dtype: UINT16 image { channels: 1 }
            op { center_crop { height: 14 width: 18 } } }"""
        with self.daemon() as daemon:
            rows = daemon.dump(self.text("deep", tensors, "size: 2"))

        def flat(value):
            return [v for part in value for v in flat(part)] if isinstance(value, list) else [value]
        self.assertEqual(flat(rows[0]["tensors"]["image"]), [v for r in deep for v in r])
        self.assertEqual(flat(rows[1]["tensors"]["image"]),
                         [257 * v for r in picture(3) for v in r])

    def test_any_workers_give_the_same_bytes_and_bad_images_are_masked(self):
        whole = png(picture(0))
        kinds = [lambda i: tiny_jpeg(i), lambda i: png(picture(i)), lambda i: whole[:-20],
                 lambda i: b"GIF89a", lambda i: tiny_jpeg(i)[:-2]]
        self.write([{"image": [kinds[i % 5](i)]} for i in range(200)])
        tensors = """tensor { name: "image" dtype: FLOAT32 layout: NCHW image { channels: 3 }
            op { random_resized_crop { height: 9 width: 9 method: BICUBIC } }
            op { color_jitter { brightness: 0.3 contrast: 0.3 saturation: 0.3 hue: 0.1 } }
            op { random_erasing {} } op { random_flip_horizontal {} }
            op { normalize { mean: [0.5] std: [0.25] } } }"""
        digests = []
        for workers in (1, 3):
            with self.daemon(workers=workers) as daemon:
                spec = self.text("bytes", tensors)
                digests.append(daemon.digests(spec, "--epochs", 2))
        self.assertEqual(digests[0], digests[1])
        self.assertNotEqual(digests[0][0]["digest"], digests[0][1]["digest"])


if __name__ == "__main__":
    main()
