#!/usr/bin/env bash
# From a fresh clone to batches in a trainer's memory: installs, builds, makes a sample dataset,
# starts a daemon, runs two trainer processes for three epochs, and draws the first batch.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$*"; }

say "packages"
deploy/install-deps.sh

work=$(mktemp -d "${TMPDIR:-/tmp}/stoker-quickstart.XXXXXX")
daemon=
trainers=()
cleanup() {
  local rc=$? pid
  for pid in "${trainers[@]}" $daemon; do
    kill "$pid" 2> /dev/null || true
  done
  wait 2> /dev/null || true
  if [ "$rc" -eq 0 ]; then rm -rf "$work"; else echo "quickstart: FAILED; logs are in $work" >&2; fi
}
trap cleanup EXIT
trap 'exit 130' INT TERM

say "build (release)"
{ cmake --preset release -DSTOKER_BUILD_TESTS=OFF &&
  cmake --build build/release -j "$(nproc)" --target stoker stokerd stoker_client; } > "$work/build.log" 2>&1 ||
  { cat "$work/build.log" >&2; exit 1; }
tail -n 1 "$work/build.log"
bin=$PWD/build/release/bin

say "sample dataset"
"$bin/stoker" synth "$work/data" --kind image --shards 8 --rows 3000 --seed 1
spec=$work/data/spec.textproto

say "daemon"
"$bin/stokerd" --runtime-dir "$work/run" --cache-dir "$work/cache" --state-dir "$work/state" \
  > "$work/stokerd.log" 2>&1 &
daemon=$!
export STOKER_RUNTIME_DIR=$work/run
for _ in $(seq 1 100); do
  grep -q 'stokerd ready' "$work/stokerd.log" && break
  kill -0 "$daemon" 2> /dev/null || { cat "$work/stokerd.log" >&2; exit 1; }
  sleep 0.1
done
grep 'stokerd ready' "$work/stokerd.log" || { cat "$work/stokerd.log" >&2; exit 1; }
"$bin/stoker" explain "$spec" --world-size 2 | sed -n 1,7p
"$bin/stoker" open "$spec"

say "two trainers, three epochs"
for rank in 0 1; do
  "$bin/stoker" read image --rank "$rank" --world-size 2 --json > "$work/rank$rank.json" 2> "$work/rank$rank.err" &
  trainers+=($!)
done
# The live display: what the stream says of itself, four times a second.
python3 - "$bin/stoker" "${trainers[@]}" <<'PY'
import json, os, subprocess, sys, time

stoker, pids = sys.argv[1], [int(p) for p in sys.argv[2:]]
on_terminal = sys.stdout.isatty()
began, last, shown = time.monotonic(), 0, 0.0

def alive(pid):
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False

while any(alive(pid) for pid in pids):
    out = subprocess.run([stoker, "--json", "status", "image"], capture_output=True, text=True)
    if out.returncode == 0:
        stream = json.loads(out.stdout)["stream"]
        rows, now = int(stream.get("counters", {}).get("rows", 0)), time.monotonic()
        lanes = stream.get("lane", [])
        text = "  ".join(
            f"rank {lane.get('rank', 0)}: epoch {lane.get('epoch', 0)} step {lane.get('step', 0)}"
            f" ready {lane.get('slots_ready', 0)} waited {lane.get('consumer_wait_seconds', 0):.2f} s"
            for lane in lanes)
        rate = (rows - last) / max(now - began, 1e-9)
        if on_terminal:
            print(f"\r{rows:6d} rows {rate:7.0f} rows/s  {text}\033[K", end="", flush=True)
        elif now - shown > 1:
            print(f"{rows:6d} rows {rate:7.0f} rows/s  {text}", flush=True)
            shown = now
    time.sleep(0.25)
if on_terminal:
    print()
PY
for rank in 0 1; do
  wait "${trainers[$rank]}" || { cat "$work/rank$rank.err" >&2; exit 1; }
done
trainers=()
cat "$work/rank0.json" "$work/rank1.json"

say "the first batch"
sheet=$PWD/build/quickstart-batch.png
"$bin/stoker" sheet "$spec" --rows 16 --out "$sheet"

say "stop"
kill "$daemon"
wait "$daemon"
daemon=
python3 - "$work" "$sheet" <<'PY'
import json, sys

work, sheet = sys.argv[1:]
ranks = [json.load(open(f"{work}/rank{r}.json")) for r in (0, 1)]
rows = sum(r["rows"] for r in ranks)
assert rows == 3 * 3000, f"{rows} rows were delivered, 9000 expected"
rate = rows / max(r["seconds"] for r in ranks)
print(f"quickstart: OK {rows} rows in 3 epochs to 2 trainers, {rate:.0f} rows/s together, picture {sheet}")
PY
