#!/usr/bin/env bash
# Programs compiled against another MPI's standard ABI (MPICH's wheel from PyPI) run on Rejoin
# by LD_LIBRARY_PATH alone.
source "$(dirname "$0")/common.sh"

venv=$work/mpich-venv
if [ ! -x "$venv/bin/mpicc_abi" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    logged foreign-fetch "$venv/bin/pip" install -q mpich==5.0.2
fi
programs=$here/../programs
for program in world storm jacobi errors; do
    logged "foreign-$program" "$venv/bin/mpicc_abi" -O2 -o "$work/foreign-$program" "$programs/$program.c" -lm
done
export LD_LIBRARY_PATH=$prefix/lib
# Into a file first: a grep that stops reading early would end what writes to it with SIGPIPE.
ldd "$work/foreign-world" >"$work/foreign-ldd.log" || fail "ldd"
grep -qF "$prefix/lib/libmpi_abi.so.1" "$work/foreign-ldd.log" ||
    fail "the loader does not take our library: $(cat "$work/foreign-ldd.log")"
bounded 60 "$mpirun" -n 3 "$work/foreign-world" x >"$work/foreign-world.log" || fail world
grep -qxF "0 of 3 appnum 0 x" "$work/foreign-world.log" || fail "world: $(cat "$work/foreign-world.log")"
bounded 60 "$mpirun" -n 2 "$work/foreign-storm" 3 20 >"$work/foreign-storm.log" || fail storm
bounded 60 "$mpirun" -n 2 "$work/foreign-errors" >"$work/foreign-errors.log" || fail errors
bounded 60 "$mpirun" -n 4 "$work/foreign-jacobi" >"$work/foreign-jacobi.log" || fail jacobi
bounded 60 env LD_LIBRARY_PATH="$venv/lib" "$venv/bin/mpiexec" -n 4 "$work/foreign-jacobi" >"$work/foreign-jacobi.mpich.log" || fail "jacobi on MPICH"
diff <(grep -v ' on ' "$work/foreign-jacobi.log") <(grep -v ' on ' "$work/foreign-jacobi.mpich.log") || fail "jacobi differs from MPICH's answer"
say "programs built for MPICH's standard ABI run on Rejoin unchanged"
