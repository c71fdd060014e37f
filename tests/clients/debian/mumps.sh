#!/usr/bin/env bash
# MUMPS, a direct solver in Fortran: its examples in all four kinds of numbers, in C and in Fortran,
# and larger systems that lose ranks. MUMPS sends as it computes and asks for whatever arrives.
source "$(dirname "$0")/debian.sh"
unpacked libmumps-5.5 mumps-test libopenmpi-dev gfortran-12
debian_binaries mumps-headers libmumps-headers-dev
debian_source mumps

headers=$work/debian/mumps-headers/usr/include
mkdir -p "$work/debian/mumps"
tar -xf "$work"/src/mumps_*.orig.tar.* -C "$work/debian/mumps" --strip-components=1 \
    --wildcards '*/examples/*'
cd "$work/debian/mumps"
needs=(-L"$libraries" -l:libdmumps-5.5.so -l:libmpi_mpifh.so.40 -l:libmpi.so.40 -lm
    -Wl,--allow-shlib-undefined)
compiled=(-O2 -w -I"$headers" -I"$libraries/openmpi/include")
logged debian-mumps-c gcc "${compiled[@]}" -o c_example examples/c_example.c "${needs[@]}"
logged debian-mumps-cube gcc "${compiled[@]}" -o cube "$here/debian/mumps.c" "${needs[@]}"
# The unpacked gfortran has no linker.
logged debian-mumps-fortran "$root/usr/bin/gfortran-12" -c "${compiled[@]}" -o multiple.o \
    examples/multiple_arithmetics_example.F
logged debian-mumps-link gcc -o multiple multiple.o -l:lib{s,c,z}mumps-5.5.so \
    -l:libgfortran.so.5 "${needs[@]}"

inputs() { cp "$root"/usr/lib/mumps/input_* .; }
# examples MPI RANKS: all of them, one after the other; the ranks of each print the solution.
examples() {
    local kind numbers
    for kind in s d c z; do
        numbers=real
        case $kind in c | z) numbers=cmplx ;; esac
        "on_$1" "$2" "$root/usr/lib/mumps/${kind}simpletest" <input_simpletest_$numbers || return
    done
    "on_$1" "$2" "$work/debian/mumps/multiple" && "on_$1" "$2" "$work/debian/mumps/c_example"
}
answer() { grep -E 'Solution is|Entering|#MPI|^symmetry' "$run.out"; }
for ranks in 1 2 3; do
    at openmpi
    done_by examples openmpi $ranks
    expected=$run.answer
    answer >"$expected"
    [ "$(grep -c 'Solution is' "$expected")" = 5 ] ||
        fail "no solutions on Open MPI: $(cat "$run.out")"
    at rejoin
    done_by examples rejoin $ranks
    judge "its examples on $ranks ranks"
done

ranks=4
job=("$work/debian/mumps/cube")
same_as_openmpi
killed_in_each_mode
