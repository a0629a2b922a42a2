"""Dependencies run one way: what each room may include, by its own includes."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
# A room and the rooms it may see, beside itself.
MAY_SEE = {
    "shm": set(),
    "daemon/base": set(),
    "daemon/io": {"daemon/base", "shm"},
    "daemon/state": {"daemon/base", "shm", "proto"},
    "daemon/example": {"daemon/base"},
    "daemon/image": {"daemon/base"},
    "daemon/plan": {"daemon/base"},
    "config": {"daemon/base", "proto"},
    "daemon/pipeline": {"daemon/base", "shm", "daemon/io", "daemon/example", "daemon/image",
                        "daemon/plan", "proto"},
    "daemon/stream": {"daemon/base", "shm", "daemon/io", "daemon/plan", "daemon/pipeline",
                      "daemon/state", "config", "proto"},
    "daemon/session": {"daemon/base", "shm", "daemon/plan", "daemon/stream", "config", "proto"},
    "daemon/control": {"daemon/base", "shm", "config", "proto"},
    "daemon/metrics": {"daemon/base", "shm", "proto"},
    "client/src": {"shm", "client/include"},
    "client/include": set(),
}
THIRD_PARTY = re.compile(r'#include <(boost|grpc|google|absl|spdlog|fmt|isa-l|zlib|jpeglib|png|hwy|CLI|nlohmann)')
INCLUDE = re.compile(r'#include "([^"]+)"')


def sources(room):
    return [p for p in (ROOT / room).iterdir() if p.suffix in (".h", ".cc", ".hpp")] + \
           [p for p in (ROOT / room / "stoker").glob("*") if room == "client/include"]


def room_of(include):
    if include.startswith("stoker/v1/"):
        return "proto"
    if include.startswith("stoker/"):
        return "client/include"
    parts = include.split("/")
    return "/".join(parts[:2]) if parts[0] in ("daemon", "client") else parts[0]


class House(unittest.TestCase):
    def test_rooms_see_only_what_is_below_them(self):
        for room, allowed in MAY_SEE.items():
            files = sources(room)
            self.assertTrue(files, room)
            for path in files:
                for include in INCLUDE.findall(path.read_text()):
                    seen = room_of(include)
                    self.assertIn(seen, allowed | {room}, f"{path} includes {include}")

    def test_what_trainers_link_uses_no_third_party_code(self):
        for room in ("shm", "client/src", "client/include"):
            for path in sources(room):
                self.assertIsNone(THIRD_PARTY.search(path.read_text()), path)

    def test_files_stay_a_room_of_their_own(self):
        for pattern in ("shm/*", "daemon/*/*", "client/**/*", "config/*", "tests/**/*"):
            for path in ROOT.glob(pattern):
                if path.suffix in (".h", ".cc", ".py", ".hpp"):
                    self.assertLessEqual(len(path.read_text().splitlines()), 700, path)

    def test_every_document_link_leads_somewhere(self):
        link = re.compile(r"\]\(([^)#]+?)(#[^)]*)?\)")
        for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
            for target, _ in link.findall(page.read_text()):
                if "://" in target:
                    continue
                self.assertTrue((page.parent / target).exists(), f"{page}: {target}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
