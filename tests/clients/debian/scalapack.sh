#!/usr/bin/env bash
# Testers of ScaLAPACK, in Fortran and C. They judge their own residuals. All that they print is
# what they print on Open MPI, but for numbers with a point: times, rates and residuals.
source "$(dirname "$0")/debian.sh"
unpacked scalapack-mpi-test

testers=$libraries/scalapack/openmpi-tests
# The testers name libscalapack, and only that names Open MPI.
options=(--abi openmpi)
inputs() { cp -L "$testers"/*.dat .; }
answer() { sed -E 's/-?[0-9]*\.[0-9]+([ED][-+]?[0-9]+)?//g; s/ +/ /g' "$run.out"; }
for tester in ${SCALAPACK_TESTERS:-xdlu xzllt xcqr xdls xzinv xdhrd xsbrd xctrd xssep xdsvd xdnep xzevc xcdblu xdptllt}; do
    client=debian-scalapack-$tester
    job=("$testers/$tester")
    same_as_openmpi
    ! grep -qE '[1-9][0-9]* tests completed and failed' "$run.out" || say "$tester fails checks on both"
done
