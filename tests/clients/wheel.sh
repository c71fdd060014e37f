#!/usr/bin/env bash
# The Python wheel: in a fresh virtual environment, mpi4py's wheel of PyPI and the compiler wrappers
# find Rejoin, and a rank of a Python program is killed and comes back.
source "$(dirname "$0")/common.sh"
root=$here/../..
out=$work/wheel
venv=$out/venv
rm -rf "$out" && mkdir -p "$out/again"
# Only what the package has may be found, and the caller's cache stays as it is.
unset LD_LIBRARY_PATH MPI4PY_MPIABI MPI4PY_LIBMPI
export XDG_CACHE_HOME=$out/cache
for folder in "$out" "$out/again"; do
    (cd "$root" && logged wheel-make cargo xtask wheel --installed "$prefix" --out "$folder")
done
wheel=$(echo "$out"/rejoin-*-py3-none-manylinux_2_*_x86_64.whl)
cmp "$wheel" "$out/again/$(basename "$wheel")" || fail "the same installation gives another wheel"

python3 -m venv "$venv"
logged wheel-install "$venv/bin/pip" install -q "$wheel" mpi4py==4.1.2
# As in an activated environment.
export PATH=$venv/bin:$PATH
text=$(bounded 60 mpirun -n 2 python -m mpi4py.bench helloworld) || fail "helloworld"
[ "$(grep -c "of 2 on" <<<"$text")" = 2 ] || fail "helloworld printed: $text"
text=$(bounded 60 mpiexec -n 4 python "$root/examples/mpi4py_sum.py") || fail "examples/mpi4py_sum.py"
[ "$text" = "4 ranks agree: the sum of the first elements is 6000" ] || fail "examples/mpi4py_sum.py printed: $text"
text=$(bounded 60 python -c 'from mpi4py import MPI; print(MPI.COMM_WORLD.size, MPI.Get_library_version())') || fail "alone"
[[ $text == "1 Rejoin"* ]] || fail "alone, another library answers: $text"
say "mpi4py of PyPI runs on the wheel"

cat >"$out/survive.py" <<'PROGRAM'
from mpi4py import MPI
import time

world = MPI.COMM_WORLD
total = 0
for step in range(300):
    total = (total + world.allreduce(step * (world.rank + 1))) % 1000003
    time.sleep(0.01)
    if step % 50 == 0:
        print(world.rank, step, total, flush=True)
PROGRAM
plain=$(bounded 60 mpirun --recovery none -n 3 python "$out/survive.py" | sort) || fail "the program that is to survive"
mpirun --timeout 120 --checkpoint-interval 0.1 --events "$out/events" -n 3 python "$out/survive.py" \
    >"$out/survive.out" 2>"$out/survive.err" &
job=$!
for _ in $(seq 1000); do
    grep -q '"event":"committed"' "$out/events" 2>/dev/null && break
    kill -0 $job 2>/dev/null || break
    sleep 0.02
done
rank=$(rejoin status --json | python -c '
import json, sys
job = next(job for job in json.load(sys.stdin) if job["mpirun"] == int(sys.argv[1]))
print(job["ranks"][1]["pid"])' "$job") || fail "the job is not there: $(cat "$out/survive.err")"
kill -9 "$rank"
wait $job || fail "a Python program lost a rank: $(cat "$out/survive.err")"
grep -q "rank 1 is back" "$out/survive.err" || fail "nobody came back: $(cat "$out/survive.err")"
[ "$(sort "$out/survive.out")" = "$plain" ] || fail "other output after a rank was lost"
say "a rank of a Python program was killed, and came back"

# The wrappers find the environment from where they lie, also through a link.
ln -s "$venv/bin/mpicc" "$out/cc"
logged wheel-cc "$out/cc" -O2 -o "$out/hello" "$root/examples/hello.c"
bounded 60 mpirun -n 2 "$out/hello" >"$out/hello.log" || fail "hello"
for name in mpirun mpiexec mpicc mpic++ mpifort mpif90 rejoin; do
    [ -s "$venv/share/man/man1/$name.1" ] || fail "no man page of $name"
done
[ -s "$venv/share/bash-completion/completions/mpirun.bash" ] || fail "no completions"
needs_package gfortran /usr/bin/gfortran
programs=$here/../programs
logged wheel-fortran mpifort -o "$out/fortran" "$programs/fortran_plate.f90"
bounded 60 mpirun -n 2 "$out/fortran" >"$out/fortran.log" || fail "Fortran"
[ -d "$venv/lib/rejoin/fortran" ] || fail "the modules of Fortran are not in the environment"
# Programs for other MPIs find their façades, also by names that are links elsewhere.
for library in mpich:libmpifort.so.12 openmpi:libmpi_mpifh.so.40; do
    bounded 60 mpirun --abi ${library%:*} -n 1 python -c '
import ctypes, sys
mpi = ctypes.CDLL(sys.argv[1])
assert mpi.MPI_Init(None, None) == 0
mpi.MPI_Finalize()' "${library#*:}" || fail "a program that loads $library"
done
say "programs of C, Fortran and other MPIs run on the wheel"

logged wheel-remove "$venv/bin/pip" uninstall -q -y rejoin
[ ! -e "$venv/bin/mpirun" ] && [ ! -e "$venv/lib/libmpi_abi.so.1" ] || fail "pip leaves files behind"
