"""Small JPEGs without a library: baseline, gray, 16x16, four blocks of one shade each.

Written from the JPEG standard (ITU-T T.81): one quantisation table of ones, one DC table whose
codes are all five bits, one AC table whose only code says "end of block".
"""

import struct


def _segment(marker, content):
    return bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content


def tiny_jpeg(number):
    """A picture that depends on `number`."""
    bits = []

    def put(value, width):
        for i in reversed(range(width)):
            bits.append(value >> i & 1)

    last = 0
    for block in range(4):
        # DC of a flat block is 8 times its level, less the shift of 128.
        dc = 8 * ((number * 37 + block * 61) % 256 - 128)
        difference, last = dc - last, dc
        size = abs(difference).bit_length()
        put(size, 5)  # the code of category n is n, in five bits
        if size:
            put(difference if difference > 0 else difference + (1 << size) - 1, size)
        put(0, 1)  # end of block
    while len(bits) % 8:
        bits.append(1)
    data = bytearray()
    for i in range(0, len(bits), 8):
        byte = int("".join(map(str, bits[i:i + 8])), 2)
        data.append(byte)
        if byte == 0xFF:
            data.append(0)
    return (b"\xff\xd8" + _segment(0xDB, b"\0" + bytes([1] * 64)) +
            _segment(0xC0, struct.pack(">BHHB", 8, 16, 16, 1) + bytes([1, 0x11, 0])) +
            _segment(0xC4, b"\0" + bytes([0] * 4 + [13] + [0] * 11) + bytes(range(13))) +
            _segment(0xC4, b"\x10" + bytes([1] + [0] * 15) + b"\0") +
            _segment(0xDA, bytes([1, 1, 0, 0, 63, 0])) + bytes(data) + b"\xff\xd9")
