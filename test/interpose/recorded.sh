#!/bin/sh
# Records a process. The command reads the trace, and writes a snapshot that Python reads.
#   recorded.sh FOLDER MILLRACE PROGRAM [PYTHON]
set -eu
folder=$1 millrace=$2 program=$3 python=${4-}
mkdir -p "$folder"
cd "$folder"
rm -f recorded.trace recorded.pickle

"$millrace" run --record recorded.trace --virtual instant,memory=2GiB -- "$program" reused_after_an_event 2>run.txt
grep "its trace is in .*recorded.trace" run.txt
"$millrace" replay recorded.trace >replay.txt
grep "recorded.trace  (Millrace trace)" replay.txt
grep "20 allocations, 20 frees" replay.txt
grep "driver, at most" replay.txt
"$millrace" replay --what-if --json what_if.json recorded.trace | grep "what each allocator would have reserved"
python3 - <<'PROGRAM'
import json

run = json.load(open("what_if.json"))["files"][0]["what_if"][0]["run"]
assert run == {"least_bytes": 8 << 20, "most_bytes": 8 << 20}, run
PROGRAM

"$millrace" replay --allocator millrace --snapshot recorded.pickle --json replay.json recorded.trace -o snapshot.txt
"$millrace" replay --allocator torch recorded.pickle | grep "20 allocations, 20 frees"
[ -z "$python" ] || "$python" - <<'PROGRAM'
import json, pickle

snapshot = pickle.load(open("recorded.pickle", "rb"))
replay = json.load(open("replay.json"))["files"][0]["replays"][0]
reserved = sum(segment["total_size"] for segment in snapshot["segments"])
assert reserved == replay["statistics"]["bytes"]["reserved"]["current"], reserved
for segment in snapshot["segments"]:
    assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
actions = [event["action"] for event in snapshot["device_traces"][0]]
assert actions.count("alloc") == 20, actions
assert actions.count("free_completed") == 20, actions
PROGRAM
"$millrace" run --snapshot run.pickle --virtual instant,memory=2GiB -- "$program" counted_by_hand 2>run.txt
"$millrace" run --snapshot run.pickle --virtual instant,memory=2GiB -- "$program" counted_by_hand 2>run.txt # replaces it
"$millrace" explain --replay none --format json run.pickle | grep "counted_by_hand"
echo "not a snapshot" >note.txt
if "$millrace" run --snapshot note.txt --virtual instant -- "$program" counted_by_hand 2>refused.txt; then exit 1; fi
grep "exists, and is not a Millrace snapshot" refused.txt
python3 -c 'import pickle; pickle.dump({"weights": [1, 2]}, open("model.pt", "wb"), protocol=2)'
cp model.pt model.before
if "$millrace" run --snapshot model.pt --virtual instant -- "$program" counted_by_hand 2>refused.txt; then exit 1; fi
grep "exists, and is not a Millrace snapshot" refused.txt
cmp model.pt model.before

# The report as JSON in a file, in addition to the text.
for attempt in first replaced; do
  "$millrace" run --json run.json --virtual adversarial:1,memory=2GiB -- "$program" counted_by_hand 2>"$attempt.txt"
done
python3 -c 'import json; gpu = json.load(open("run.json"))["gpus"][0]; assert gpu["bytes"]["reserved"]["peak"] == 10 << 20, gpu'
grep "GPU 0: peak reserved 10.0 MiB" replaced.txt
if "$millrace" run --json run.txt --virtual instant -- "$program" counted_by_hand 2>refused.txt; then exit 1; fi
grep "ends with .json" refused.txt

# The report lists memory that waits for work, by stream. In this schedule no work completes before
# the program waits.
"$millrace" run --virtual adversarial:3,memory=2GiB -- "$program" streams_side_by_side 2>waiting.txt
grep "24.0 MiB of stream 2, until work of stream 2" waiting.txt
"$millrace" run --virtual instant,memory=2GiB -- "$program" streams_side_by_side 2>complete.txt
if grep "until work of" complete.txt; then exit 1; fi
echo "recorded, replayed and read back"
