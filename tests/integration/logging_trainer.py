"""A trainer that can be killed at any instant: it logs what it read before it gives it back, and
begins behind the last line that it finds in its log.

    logging_trainer.py RUN_DIR STREAM RANK WORLD_SIZE LOG [HOLD]

HOLD batches are kept before the first is given back. A line is the ids, a CRC of their bytes and
the token behind them.
"""

import pathlib
import struct
import sys
import zlib

from trainer import Trainer


def whole_lines(path):
    if not path.exists():
        return []
    return [line.split() for line in path.read_text().split("\n")[:-1]]


def main():
    run, stream, rank, world_size, log = sys.argv[1:6]
    hold = int(sys.argv[6]) if len(sys.argv) > 6 else 0
    log = pathlib.Path(log)
    lines = whole_lines(log)
    token = lines[-1][2].encode() if lines else None
    # A line that was cut by a kill is written again.
    log.write_text("".join(" ".join(line) + "\n" for line in lines))
    with open(log, "ab", buffering=0) as out, \
            Trainer(pathlib.Path(run), stream, int(rank), int(world_size), token=token) as trainer:
        held = []
        for batch in trainer:
            ids = batch.ids()
            crc = zlib.crc32(struct.pack(f"<{len(ids)}q", *ids))
            out.write(f"{','.join(map(str, ids))} {crc:08x} {batch.token()}\n".encode())
            held.append(batch)
            if len(held) > hold:
                held.pop(0).release()


if __name__ == "__main__":
    main()
