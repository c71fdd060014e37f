#!/usr/bin/env bash
# mpi4py built from its PyPI source package with our mpicc: its benches, and its own test suite
# at 1, 2 and 4 ranks (at MPI_THREAD_MULTIPLE) except what mpi4py.skip lists with reasons.
source "$(dirname "$0")/common.sh"

version=4.1.2
export LD_LIBRARY_PATH=$prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
python=$work/mpi4py-venv/bin/python
mkdir -p "$work/src"
# The build takes minutes, so it is kept as long as our header is the one it was made with.
stamp=$work/mpi4py-venv/stamp
want=$(sha256sum "$prefix/include/mpi.h" | cut -d' ' -f1)-$version
if [ "$(cat "$stamp" 2>/dev/null)" != "$want" ]; then
    rm -rf "$work/mpi4py-venv"
    python3 -m venv "$work/mpi4py-venv"
    say "building mpi4py $version from source with $mpicc"
    if [ ! -e "$work/src/mpi4py-$version.tar.gz" ]; then
        logged mpi4py-fetch "$work/mpi4py-venv/bin/pip" download -q --no-deps --no-binary :all: "mpi4py==$version" -d "$work/fresh-mpi4py"
        mv "$work/fresh-mpi4py"/* "$work/src/"
    fi
    CFLAGS="-O0 -g0" MPICC=$mpicc logged mpi4py-build \
        "$work/mpi4py-venv/bin/pip" install -q --no-cache-dir --no-binary mpi4py numpy "$work/src/mpi4py-$version.tar.gz"
    echo "$want" >"$stamp"
fi
rm -rf "$work/mpi4py" && mkdir "$work/mpi4py"
tar -xf "$work/src/mpi4py-$version.tar.gz" -C "$work/mpi4py" --strip-components=1

for n in 1 2 4; do
    hello=$(bounded 60 "$mpirun" -n $n "$python" -m mpi4py.bench helloworld) || fail "helloworld on $n ranks"
    [ "$(grep -c "of $n on" <<<"$hello")" = $n ] || fail "helloworld on $n ranks printed: $hello"
    bounded 60 "$mpirun" -n $n "$python" -m mpi4py.bench ringtest -n 4096 -l 10 >"$work/mpi4py-ring-$n.log" || fail "ringtest on $n ranks"
done
text=$(bounded 60 "$mpirun" -n 4 "$python" "$here/../../examples/mpi4py_sum.py") || fail "examples/mpi4py_sum.py"
[ "$text" = "4 ranks agree: the sum of the first elements is 6000" ] || fail "examples/mpi4py_sum.py printed: $text"
say "helloworld and ringtest passed on 1, 2 and 4 ranks, and the example on 4"

# Ranks of a Python program are killed while it runs, with the pool of threads of its BLAS. On a
# machine with fewer cores the pool is smaller.
export OPENBLAS_NUM_THREADS=4
cat >"$work/mpi4py-survive.py" <<'PROGRAM'
from mpi4py import MPI
import numpy as np
import time

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
mine = np.arange(1000.0) + rank
for step in range(300):
    all = np.empty_like(mine)
    world.Allreduce(mine, all, op=MPI.SUM)
    mine = np.cos(all / size) + rank
    if step % 10 == 0:
        square = np.cos(np.outer(mine[:200], mine[:200]))
        mine[0] = np.sin((square @ square).sum())
    text = world.sendrecv({"from": rank, "step": step}, dest=(rank + 1) % size, source=(rank - 1) % size)
    assert text == {"from": (rank - 1) % size, "step": step}
    time.sleep(0.005)
    if step % 50 == 0:
        print(rank, step, repr(float(mine.sum())), flush=True)
PROGRAM
plain=$(bounded 60 "$mpirun" --recovery none -n 3 "$python" "$work/mpi4py-survive.py" | sort) || fail "the program that is to survive"
for seed in 1 2 3; do
    bounded 60 "$mpirun" --checkpoint-interval 0.1 -n 3 "$python" "$work/mpi4py-survive.py" \
        >"$work/mpi4py-survive.out" 2>"$work/mpi4py-survive.err" &
    job=$!
    # The ranks are the Python processes below; one is killed once images of all are there.
    for _ in $(seq 500); do
        twins=0 ranks=()
        for pid in $(ps -e -o pid= -o args= | awk -v p="$work/mpi4py-survive.py" '$NF == p { print $1 }'); do
            case $(cat "/proc/$pid/comm" 2>/dev/null) in
            rejoin-twin) twins=$((twins + 1)) ;;
            python*) ranks+=("$pid") ;;
            esac
        done
        [ $twins -ge 3 ] && [ ${#ranks[@]} -ge $seed ] && break
        kill -0 $job 2>/dev/null || break
        sleep 0.02
    done
    [ "$twins" -ge 3 ] || fail "no images of a Python program: $(cat "$work/mpi4py-survive.err")"
    kill -9 "${ranks[$((seed - 1))]}"
    wait $job || fail "a Python program lost a rank: $(cat "$work/mpi4py-survive.err")"
    grep -q "is back after" "$work/mpi4py-survive.err" || fail "nobody came back: $(cat "$work/mpi4py-survive.err")"
    [ "$(sort "$work/mpi4py-survive.out")" = "$plain" ] || fail "other output after a rank was lost"
done
say "a program whose ranks were killed wrote what it writes undisturbed"

# All its processes are killed at once in the middle, and the job continues from files.
killed_in_the_middle mpi4py 3 -n 3 "$python" "$work/mpi4py-survive.py"
restarted mpi4py >"$work/mpi4py-again.out" 2>"$work/mpi4py-again.err" || fail "restarted: $(cat "$work/mpi4py-again.err")"
[ "$(grep ' 250 ' "$work/mpi4py-again.out" | sort)" = "$(grep ' 250 ' <<<"$plain")" ] || fail "other output after a restart: $(cat "$work/mpi4py-again.out")"
say "a program whose processes were all killed wrote the same after its restart"

skip=$work/mpi4py-skip.patterns
modules=()
while read -r module; do modules+=(-e "^$module\\.py$"); done < <(sed -n 's/^module:\([a-z0-9_]*\).*/\1/p' "$here/mpi4py.skip")
patterns() { sed -e 's/[[:space:]]*#.*//' -e '/^$/d' -e '/^module:/d' "$@" "$here/mpi4py.skip"; }
cd "$work/mpi4py/test"
failed=0
for n in ${MPI4PY_RANKS:-1 2 4}; do
    log=$work/mpi4py-suite-$n.log
    if [ $n = 1 ]; then patterns -e '/^several:/d'; else patterns -e 's/^several://'; fi >"$skip"
    if bounded 600 "$mpirun" -n $n "$python" -B runtests.py --no-builddir --xfile "$skip" "${modules[@]}" -q >"$log" 2>&1; then
        say "test suite on $n ranks passed: $(grep -m1 '^Ran ' "$log"), $(grep -m1 '^OK' "$log")"
    else
        grep -E '^(ERROR|FAIL):' "$log" | sort | uniq -c | head -n 60 >&2 || true
        tail -n 15 "$log" >&2
        echo "$client: test suite on $n ranks FAILED (log: $log)" >&2
        failed=1
    fi
done
exit $failed
