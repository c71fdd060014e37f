#!/usr/bin/env bash
# A kill that is survived: runs the ring twice, kills one rank of the second run with SIGKILL, and
# compares the output of both runs.
#
#   survive.sh PREFIX      PREFIX is the folder of the installation
set -euo pipefail
bin=${1:?the folder of the installation}/bin
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$bin/mpicc" -O2 -o "$work/ring" "$here/ring.c"
"$bin/mpirun" -n 4 "$work/ring" 40 > "$work/undisturbed"

# 40 rounds of 4 x 20 ms take some three seconds.
"$bin/mpirun" -n 4 --checkpoint-interval 0.2 --events "$work/events" "$work/ring" 40 20000 \
    > "$work/killed" 2> "$work/messages" &
job=$!

# After the first checkpoint that was committed, a rank is killed.
for _ in $(seq 200); do
    grep -q '"event":"committed"' "$work/events" 2>/dev/null && break
    sleep 0.05
done
pid=$("$bin/rejoin" status --json | python3 -c '
import json, sys
job = next(job for job in json.load(sys.stdin) if job["mpirun"] == int(sys.argv[1]))
print(job["ranks"][2]["pid"])' "$job")
echo "killing rank 2, process $pid"
kill -9 "$pid"

wait "$job"
cat "$work/messages"
cmp "$work/undisturbed" "$work/killed"
echo "both runs printed the same $(wc -l < "$work/killed") lines"
