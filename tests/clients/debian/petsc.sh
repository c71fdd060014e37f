#!/usr/bin/env bash
# PETSc: what its `make check` builds and runs, with the solvers of Hypre, ML, MUMPS, SuperLU_DIST
# and UMFPACK; programs of its own tests in C and Fortran; and steps of a heat equation that lose
# ranks.
source "$(dirname "$0")/debian.sh"
unpacked libpetsc-real3.18 libopenmpi-dev gfortran-12
debian_binaries petsc-sources libpetsc3.18-dev-examples libpetsc-real3.18-dev \
    libpetsc3.18-dev-common libhdf5-openmpi-dev

petsc=$work/debian/petsc-sources/usr
examples=$petsc/share/petsc/3.18/share/petsc/examples/src
programs=$work/debian/petsc-programs
flags=(-O2 -w -I"$(echo "$petsc"/lib/petscdir/petsc3.18/*-real/include)"
    -I"$petsc/share/petsc/3.18/include" -I"$petsc/include/hdf5/openmpi"
    -I"$libraries/openmpi/include" -I"$(echo "$libraries"/fortran/gfortran-mod-*/openmpi)")
needs=(-L"$libraries" -l:libpetsc_real.so.3.18 -l:libhdf5_openmpi.so.103 -l:libmpi_mpifh.so.40
    -l:libmpi_usempif08.so.40 -l:libmpi.so.40 -l:libgfortran.so.5 -lm -Wl,--allow-shlib-undefined)

# program SOURCE: its path; folders of the examples have programs of the same name.
program() { echo "$programs/$(echo "${1%.*}" | tr / _)"; }

# compiled SOURCE
compiled() {
    local made
    made=$(program "$1")
    [ ! -e "$made" ] || return 0
    case $1 in
    *.c) logged petsc-compile gcc -c "${flags[@]}" -o "$made.o" "$examples/$1" ;;
    # The unpacked gfortran has no linker.
    *) logged petsc-compile "$root/usr/bin/gfortran-12" -c -ffree-line-length-0 "${flags[@]}" \
        -J"$programs" -o "$made.o" "$examples/$1" ;;
    esac
    logged petsc-link gcc -o "$made" "$made.o" "${needs[@]}"
}

inputs() { :; }
runs=$(grep '^[0-9]' "$here/debian/petsc.tests")
mkdir -p "$programs"
while read -r _ _ source _; do compiled "$source"; done <<<"$runs"

# each MPI: all runs of petsc.tests, which do what PETSc's authors expect, too.
each() {
    local ranks expects source arguments at=0
    while read -r ranks expects source arguments; do
        at=$((at + 1))
        echo "the next one is $source $arguments"
        # shellcheck disable=SC2086
        "on_$1" "$ranks" "$(program "$source")" $arguments <&- | tee "$run.$at" || return
        [ "$expects" != - ] || continue
        diff "$(dirname "$examples/$source")/output/$expects" "$run.$at" >&2 || return
    done <<<"$runs"
}
answer() { cat "$run.out"; }
at openmpi
done_by each openmpi
expected=$run.answer
answer >"$expected"
at rejoin
done_by each rejoin
judge "$(wc -l <<<"$runs") runs of its examples"

# Debian's PT-Scotch calls MPI from two threads at once, for which PETSc does not ask.
compiled dm/impls/plex/tutorials/ex5.c
ranks=4
job=("$(program dm/impls/plex/tutorials/ex5.c)"
    -infile "$petsc/share/petsc/3.18/share/petsc/datafiles/meshes/blockcylinder-50.h5"
    -informat hdf5_xdmf -outfile dump.h5 -outformat hdf5_petsc -ntimes 3
    -interpolated_dm_plex_interpolate_pre -redistributed_dm_distribute -loaded_dm_view
    -interpolated_dm_view -redistributed_dm_view -petscpartitioner_type ptscotch)
client=debian-petsc-ptscotch
REJOIN_THREADS=multiple same_as_openmpi

client=debian-petsc
compiled ts/tutorials/ex15.c
job=("$(program ts/tutorials/ex15.c)" -da_grid_x 60 -da_grid_y 60 -boundary 1
    -ts_adapt_type none -ts_monitor -snes_monitor_short
    -pc_type lu -pc_factor_mat_solver_type superlu_dist)
same_as_openmpi
killed_in_each_mode
