#!/usr/bin/env bash
# HPC Challenge: linear algebra, transforms and random updates with operations of its own, in C.
# Its answers are residuals, which it judges itself.
source "$(dirname "$0")/debian.sh"
unpacked hpcc

job=("$root/usr/bin/hpcc")
inputs() { sed -e '8s/80/40/' "$root/usr/share/doc/hpcc/examples/_hpccinf.txt" >hpccinf.txt; }
answer() {
    grep -E '^\|\|.*(PASSED|FAILED)$|tests completed|^Success=|Found .* errors in' hpccoutf.txt
    ! grep -q FAILED hpccoutf.txt || fail "$(grep -m1 FAILED hpccoutf.txt)"
}

same_as_openmpi
killed_in_each_mode
