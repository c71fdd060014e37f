#!/usr/bin/env bash
# The tests of PnetCDF's sources that several ranks run, on Debian's library: they write, read and
# check files by MPI-IO. What they print and the files are the same byte for byte.
source "$(dirname "$0")/debian.sh"
unpacked libpnetcdf0d pnetcdf-bin libopenmpi-dev gfortran-12 m4
debian_binaries pnetcdf-headers libpnetcdf-dev
debian_source pnetcdf

sources=$work/debian/pnetcdf-sources
if [ ! -d "$sources" ]; then
    mkdir -p "$sources.new"
    tar -xf "$work"/src/pnetcdf_*.orig.tar.* -C "$sources.new" --strip-components=1
    mv "$sources.new" "$sources"
fi
programs=$work/debian/pnetcdf-programs
headers=$work/debian/pnetcdf-headers/usr
# What its configuration would define.
flags=(-O1 -w "-Dlonglong=long long" "-Dulonglong=unsigned long long" "-Dschar=signed char"
    "-Duchar=unsigned char" -DRELAX_COORD_BOUND -I"$programs" -I"$headers/include"
    -I"$libraries/openmpi/include" -I"$sources/test/common"
    -I"$(echo "$headers"/lib/*/fortran/gfortran-mod-*)"
    -I"$(echo "$libraries"/fortran/gfortran-mod-*/openmpi)")
needs=(-L"$libraries" -l:libpnetcdf.so.0d -l:libmpi_mpifh.so.40 -l:libmpi.so.40
    -l:libgfortran.so.5 -lm -Wl,--allow-shlib-undefined)
m4=$(command -v m4 || echo "$root/usr/bin/m4")

# compiled NAME SOURCES...: a program of C, of M4 that makes C, and of Fortran.
compiled() {
    local program=$programs/$1 source made=()
    shift
    [ ! -e "$program" ] || return 0
    cd "$programs"
    for source; do
        case $source in
        *.m4)
            "$m4" -I"$sources/m4" -DPNETCDF "$source" >"$program-$(basename "$source" .m4).c"
            made+=("$program-$(basename "$source" .m4).c")
            ;;
        *.f90)
            logged pnetcdf-compile "$root/usr/bin/gfortran-12" -c "${flags[@]}" -J"$programs" \
                -o "$program-$(basename "$source").o" "$source"
            made+=("$program-$(basename "$source").o" "${of_fortran[@]}")
            ;;
        *) made+=("$source") ;;
        esac
    done
    logged pnetcdf-compile gcc "${flags[@]}" -I"$(dirname "${made[0]}")" -I"$(dirname "$1")" \
        -o "$program.new" "${made[@]}" "$sources/test/common/testutils.c" "${needs[@]}"
    mv "$program.new" "$program"
}

# all_of FOLDER EXCEPT: one program of each source in this folder of the tests.
all_of() {
    local source
    for source in "$sources/test/$1"/*.{c,m4,f90}; do
        [[ -e $source && ! $(basename "$source") =~ ^($2)\. ]] || continue
        names+=("$(basename "${source%.*}")") of_fortran=()
        [[ $source != *.f90 ]] || of_fortran=("$programs/testutilsf.o")
        compiled "${names[-1]}" "$source"
    done
}
mkdir -p "$programs"
cd "$programs"
logged pnetcdf-common "$root/usr/bin/gfortran-12" -c "${flags[@]}" \
    "$sources/test/common/testutilsf.F90"
names=()
# Left out are a program for threads, which Debian's library does not have, and a benchmark.
all_of testcases 'tst_pthread|redef1|large_var_cdf5|last_large_var|tst_dimsizes'
all_of nonblocking mcoll_perf
all_of header none
all_of C 'pres_temp_4D_rd'
all_of F90 'tst_io|tst_f90.*|f90tst_vars.*|test_.*|tst_types2'
compiled pres_temp_4D_rd "$sources/test/C/pres_temp_4D_rd.c"
(cd "$programs" && "$m4" -I"$sources/m4" -DPNETCDF "$sources/test/nc_test/tests.h.m4" >tests.h)
compiled nc_test "$sources"/test/nc_test/{{nc_test,error,util}.c,test_{get,put,iget,iput}.m4} \
    "$sources"/test/nc_test/test_{read,write}.m4

inputs() { cp "$sources"/test/cdf_format/*.nc* .; }
# each MPI RANKS: all programs, with a file of its own each.
each() {
    local name file
    for name in "${names[@]}" pres_temp_4D_rd; do
        # This one reads what another one has written.
        file=${name/pres_temp_4D_rd/pres_temp_4D_wr}.nc
        "on_$1" "$2" "$programs/$name" "$file" || echo "$name failed"
    done
}
# Two files are left out. check_type writes what memory held before. add_var moves variables that
# were never written: on four ranks Open MPI counts bytes behind the end of the file as read (a
# status tells what was read, MPI-5.0 §14.4), so the file becomes longer there.
answer() {
    cat "$run.out"
    find . -name '*.nc*' ! -name 'add_var.nc*' ! -name 'check_type.nc*' | sort | xargs sha256sum
}
at openmpi
done_by each openmpi 4
expected=$run.answer
answer >"$expected"
! grep -E ' failed$|fail with' "$run.out" >&2 || fail "programs fail on Open MPI"
at rejoin
done_by each rejoin 4
judge "${#names[@]} programs"

# One program for one rank, which tries all functions with all types, in each format.
answer() { grep -c pass "$run.out" && sha256sum test*; }
formats() {
    local format
    for format in '' -2 -5; do
        "on_$1" 1 "$programs/nc_test" $format -d . || return
        mv test.nc "test$format"
    done
}
at openmpi
done_by formats openmpi
expected=$run.answer
answer >"$expected"
at rejoin
done_by formats rejoin
judge "nc_test"
