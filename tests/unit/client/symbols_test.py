"""The trainer's library needs libc alone and exports stoker_* alone."""

import os
import re
import subprocess
import sys

library = sys.argv[1]
needed = re.findall(r"\(NEEDED\).*\[(.*)\]", subprocess.check_output(["readelf", "-d", library], text=True))
exported = [line.split()[-1] for line in
            subprocess.check_output(["nm", "-D", "--defined-only", library], text=True).splitlines()]
print("needs", needed)
print("exports", len(exported), "symbols")
others = [name for name in exported if not name.startswith("stoker_")]
assert not others, others
assert len(exported) >= 12, exported
if os.environ.get("STOKER_SANITIZE"):
    print("a sanitizer's run-time needs more than libc: the needed libraries are not judged here")
else:
    # The dynamic loader is libc's own; thread-local storage names it.
    assert set(needed) <= {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}, needed
for word in ("protobuf", "grpc", "absl", "boost", "spdlog", "_ZSt", "__cxa_"):
    undefined = subprocess.check_output(["nm", "-D", "--undefined-only", library], text=True)
    if not os.environ.get("STOKER_SANITIZE"):
        assert word not in undefined.replace("__cxa_finalize", ""), word
