#!/usr/bin/env bash
# Debian's mpi4py 3.1.4 with the tests that come with its sources, and a program of Python that
# loses ranks.
source "$(dirname "$0")/debian.sh"
unpacked python3-mpi4py python3-numpy

export PYTHONPATH=$root/usr/lib/python3/dist-packages
python=/usr/bin/python3
options=(--abi openmpi)
job=("$python" messages.py)
inputs() {
    cat >messages.py <<'PROGRAM'
from mpi4py import MPI
import numpy as np
import time

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
mine = np.arange(1000.0) + rank
for step in range(600):
    all = np.empty_like(mine)
    world.Allreduce(mine, all, op=MPI.MAX)
    mine = np.cos(all + mine) + rank
    text = world.sendrecv({"from": rank, "step": step}, dest=(rank + 1) % size, source=(rank - 1) % size)
    assert text == {"from": (rank - 1) % size, "step": step}
    time.sleep(0.005)
    if step % 100 == 0:
        # One rank writes: Open MPI mixes lines of several.
        sums = world.gather(float(mine.sum()))
        if rank == 0:
            print(step, *map(repr, sums), flush=True)
PROGRAM
}
answer() { cat "$run.out"; }
same_as_openmpi
killed_in_each_mode

# Its own tests, which all pass on Open MPI, but for those of tests/clients/debian/mpi4py.skip.
if [ ! -d "$work/debian/mpi4py-3.1.4" ]; then
    logged mpi4py-sources python3 -m pip download -q --no-deps --no-binary :all: mpi4py==3.1.4 -d "$work/debian"
    tar -xf "$work/debian/mpi4py-3.1.4.tar.gz" -C "$work/debian"
fi
cat >"$work/debian/mpi4py-tests.py" <<'PROGRAM'
import fnmatch, runtests, sys, unittest

skipped = [line.split()[0] for line in open(sys.argv[1]) if line[0] not in "#\n"]
plain = unittest.TestLoader.loadTestsFromModule

def load(loader, module, *more):
    def kept(suite):
        for test in suite:
            if isinstance(test, unittest.TestSuite):
                yield from kept(test)
            elif not any(fnmatch.fnmatch(test.id(), pattern) for pattern in skipped):
                yield test
    return unittest.TestSuite(kept(plain(loader, module, *more)))

unittest.TestLoader.loadTestsFromModule = load
sys.exit(runtests.main(sys.argv[2:]))
PROGRAM
cd "$work/debian/mpi4py-3.1.4/test"
for ranks in 1 2 3; do
    log=$work/mpi4py-debian-$ranks.log
    if ! PYTHONPATH=$PYTHONPATH:. on_rejoin $ranks $python -B "$work/debian/mpi4py-tests.py" "$here/debian/mpi4py.skip" \
        --no-builddir -q -e spawn -e dynproc >"$log" 2>&1; then
        grep -E '^(ERROR|FAIL):' "$log" | sort | uniq -c | head -n 60 >&2 || true
        fail "tests on $ranks ranks: $(tail -n 15 "$log")"
    fi
    say "its tests on $ranks ranks passed: $(grep -m1 '^Ran ' "$log"), $(grep -m1 '^OK' "$log")"
done
