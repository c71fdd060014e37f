#!/usr/bin/env bash
# Programs compiled against MPICH (4.0's packages of Debian, 5.0's wheel from PyPI) run on Rejoin
# unchanged, and lose ranks. First the façade has all that the headers and libraries of MPICH and
# Intel MPI say.
source "$(dirname "$0")/common.sh"
source "$here/facade.sh"

facade=$prefix/lib/rejoin/mpich/libmpi.so.12
tables=$here/../../facade/mpich/abi
status_bytes=20
# from_pypi NAME PACKAGES...: a folder of their own for them, since both have a libmpi.so.12.
from_pypi() {
    local folder=$work/$1
    shift
    [ -e "$folder/stamp" ] && return
    rm -rf "$folder"
    python3 -m venv "$folder"
    logged "fetch-$(basename "$folder")" "$folder/bin/pip" install -q "$@"
    touch "$folder/stamp"
}
from_pypi mpich-venv mpich==5.0.2 mpi4py==4.1.2 numpy
from_pypi mpich-intel impi-devel==2021.18.1
venv=$work/mpich-venv
debian_binaries mpich libmpich-dev libmpich12
debian=$work/debian/mpich/usr/lib/$(gcc -print-multiarch)
headers=$work/debian/mpich/usr/include/$(gcc -print-multiarch)/mpich
layout 4.0 "$headers" "$debian/libmpich.so.12"
layout 5.0 "$venv/include" "$venv/lib/libmpi.so.12"
layout intel "$work/mpich-intel/include" "$work/mpich-intel/lib/libmpi.so.12"

# Debian's library is only there to be linked with: its name is in the programs.
programs=$here/../programs
for program in facade world storm jacobi coll p2p derived persistent threads corners objects; do
    logged "mpich-$program" gcc -O2 -I"$headers" -o "$work/mpich-$program" "$programs/$program.c" \
        -L"$debian" -l:libmpich.so.12 -lm -Wl,--unresolved-symbols=ignore-in-shared-libs
done
logged mpich-wheel "$venv/bin/mpicc" -O2 -o "$work/mpich-wheel" "$programs/facade.c"
for ranks in 1 2 3; do run facade $ranks; done
run wheel 2
run world 3 x
grep -qxF "0 of 3 appnum 0 x" "$work/mpich-world.log" || fail "world: $(cat "$work/mpich-world.log")"
run storm 2 3 20
for program in coll p2p derived persistent threads corners objects; do run "$program" 2; done
variables=$(bounded 60 "$mpirun" --abi mpich -n 2 sh -c 'echo $PMI_RANK/$PMI_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS' | sort)
[ "$variables" = "$(printf '0/2 0/2\n1/2 1/2')" ] || fail "variables: $variables"
# What Rejoin lacks, and what only the façade lacks, is an error of the same class; the latter names
# itself.
cat >"$work/mpich-lacking.c" <<'PROGRAM'
#include <mpi.h>
int main(int argc, char **argv)
{
    int class = 0, other = 0;
    MPI_Comm comm;
    MPI_Group group;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Comm_join(0, &comm), &class);
    MPI_Error_class(MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &group), &other);
    MPI_Finalize();
    return class != MPI_ERR_UNSUPPORTED_OPERATION || other != MPI_ERR_UNSUPPORTED_OPERATION;
}
PROGRAM
logged mpich-lacking "$venv/bin/mpicc" -o "$work/mpich-lacking" "$work/mpich-lacking.c"
run lacking 1
grep -q "^MPIX_Comm_failure_get_acked: Rejoin does not have this function for programs of MPICH" \
    "$work/mpich-lacking.log" || fail "a missing function does not name itself"
say "programs built for MPICH run on Rejoin unchanged"

plain=$(bounded 120 "$mpirun" --recovery none -n 4 "$work/mpich-jacobi" 300 4000 | grep -v ' on ') || fail jacobi
survives mpich-lost "$work/mpich-jacobi" 300 4000 1000
[ "$(grep -v ' on ' "$work/mpich-lost.out")" = "$plain" ] || fail "another answer after ranks were lost: $(cat "$work/mpich-lost.out")"
say "a program built for MPICH lost two ranks, and gave the same answer"

# Fortran's functions are in the same library.
needs_package gfortran /usr/bin/gfortran
logged mpich-fortran gfortran -O2 -w -J"$work" -fallow-argument-mismatch -I"$headers" -o "$work/mpich-fortran" \
    "$programs/facade.f90" -L"$debian" -l:libmpichfort.so.12 -Wl,--unresolved-symbols=ignore-in-shared-libs
for ranks in 1 3; do
    run fortran $ranks
    grep -qxF "facade: right on $ranks ranks" "$work/mpich-fortran.log" || fail "Fortran: $(cat "$work/mpich-fortran.log")"
done
say "programs of Fortran run"

# A tester of ScaLAPACK from Debian: only its library of Fortran and C names MPICH.
debian_binaries mpich-scalapack scalapack-mpi-test scalapack-test-common libscalapack-mpich2.2 libblas3 liblapack3 libgfortran5 libquadmath0
libraries=$work/debian/mpich-scalapack/usr/lib/$(gcc -print-multiarch)
cd "$libraries/scalapack/mpich-tests"
LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack bounded 120 "$mpirun" --abi mpich -n 4 ./xdhrd \
    >"$work/mpich-xdhrd.log" 2>&1 || fail "xdhrd: $(tail -n 20 "$work/mpich-xdhrd.log")"
grep -q '^ *[0-9]* tests completed and passed' "$work/mpich-xdhrd.log" || fail "xdhrd: $(tail -n 20 "$work/mpich-xdhrd.log")"
grep -q ' 0 tests completed and failed' "$work/mpich-xdhrd.log" || fail "xdhrd: $(grep failed "$work/mpich-xdhrd.log")"
say "Debian's tester of ScaLAPACK for MPICH passed"

# mpi4py's wheel loads MPICH's library if it is told to.
export MPI4PY_MPIABI=mpich
python=$venv/bin/python
for n in 1 3; do
    bounded 60 "$mpirun" --abi mpich -n $n "$python" -m mpi4py.bench ringtest -n 4096 -l 10 >"$work/mpich-ring-$n.log" 2>&1 ||
        fail "ringtest on $n ranks: $(cat "$work/mpich-ring-$n.log")"
done
cat >"$work/mpich-survive.py" <<'PROGRAM'
from mpi4py import MPI
import numpy as np
import time

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
larger = MPI.Op.Create(lambda a, b, kind: np.maximum(np.frombuffer(a), np.frombuffer(b), out=np.frombuffer(b)), True)
mine = np.arange(1000.0) + rank
for step in range(600):
    all = np.empty_like(mine)
    world.Allreduce(mine, all, op=larger if step % 20 == 0 else MPI.SUM)
    mine = np.cos(all / size) + rank
    text = world.sendrecv({"from": rank, "step": step}, dest=(rank + 1) % size, source=(rank - 1) % size)
    assert text == {"from": (rank - 1) % size, "step": step}
    time.sleep(0.01)
    if step % 50 == 0:
        print(rank, step, repr(float(mine.sum())), flush=True)
PROGRAM
plain=$(bounded 60 "$mpirun" --abi mpich --recovery none -n 4 "$python" "$work/mpich-survive.py" | sort) || fail "mpi4py"
survives mpich-python --abi mpich "$python" "$work/mpich-survive.py"
[ "$(sort "$work/mpich-python.out")" = "$plain" ] || fail "mpi4py after ranks were lost: $(cat "$work/mpich-python.out")"
say "mpi4py's wheel runs, and lost two ranks"
