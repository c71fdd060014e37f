#!/usr/bin/env bash
# The programs of examples/, as their first comments say, and what they print.
source "$(dirname "$0")/common.sh"
examples=$here/../../examples
out=$work/examples
rm -rf "$out" && mkdir -p "$out/images"

for name in hello ring regions; do
    logged "examples-$name" "$mpicc" -O2 -Wall -Werror -o "$out/$name" "$examples/$name.c"
done

text=$(bounded 60 "$mpirun" -n 4 "$out/hello" | sort) || fail "hello"
[ "$(grep -cE '^rank [0-3] of 4 on ' <<<"$text")" = 4 ] || fail "hello printed: $text"

text=$(bounded 60 "$mpirun" -n 4 "$out/ring" 3) || fail "ring"
[ "$text" = $'round 1: 1006\nround 2: 2006\nround 3: 3006' ] || fail "ring printed: $text"

text=$(bounded 60 "$mpirun" -n 4 "$out/regions" 50) || fail "regions without a folder"
whole=$(tail -n 1 <<<"$text")
bounded 60 "$mpirun" -n 4 --images "$out/images" "$out/regions" 30 >/dev/null || fail "regions"
text=$(bounded 60 "$mpirun" -n 4 --images "$out/images" --restart "$out/regions" 50) || fail "regions, restarted"
[ "$text" = "continuing after step 30"$'\n'"$whole" ] || fail "regions printed: $text, not $whole"

text=$(bounded 120 "$examples/survive.sh" "$prefix") || fail "survive: $text"
grep -q "rank 2 is back" <<<"$text" || fail "nobody came back: $text"
say "hello, ring, regions and survive do what they say"
