#!/usr/bin/env bash
# A program of Open MPI's former binding for C++, whose library stays that of Open MPI.
source "$(dirname "$0")/debian.sh"
unpacked libopenmpi-dev

program=$work/debian/cxx
logged debian-cxx-build g++ -O2 -w -I"$libraries/openmpi/include" -I"$libraries/openmpi/include/openmpi" \
    -o "$program" "$here/debian/cxx.cpp" -L"$libraries" -l:libmpi_cxx.so.40 -l:libmpi.so.40 -Wl,--allow-shlib-undefined
readelf -d "$program" | grep -q 'NEEDED.*libmpi_cxx.so.40' || fail "the program does not need the binding"
job=("$program")
inputs() { :; }
answer() { cat "$run.out"; }

same_as_openmpi
killed_in_each_mode
