#!/usr/bin/env bash
# Testers of BLACS in C and Fortran: sends, broadcasts and combinations of matrices of all shapes.
# Their last test is BLACS_ABORT, which must end the job.
source "$(dirname "$0")/debian.sh"
unpacked scalapack-mpi-test

testers=$libraries/scalapack/openmpi-tests
inputs() { cp -L "$testers"/BLACS/*.dat .; }
# The test of repeatable sums skips itself if messages happen to arrive in one order all the time.
answer() {
    grep -E 'PASSED|FAILED|INCORRECT|COMPLETED|SKIPPED' "$run.out" |
        sed -E 's/(PASSED |SKIPPED)( REPEATABLE SUM)/PASSED or SKIPPED\2/'
}
aborted() {
    at "$1"
    if "on_$1" 4 "$testers/$tester" >"$run.out" 2>"$run.err"; then fail "BLACS_ABORT ended nothing on $1"; fi
    grep -q 'The final auxiliary test is for BLACS_ABORT' "$run.out" || fail "ended early on $1: $(tail -n 20 "$run.out" "$run.err")"
}
for tester in xCbtest xFbtest; do
    client=debian-blacs-$tester
    aborted openmpi
    expected=$run.answer
    answer >"$expected"
    aborted rejoin
    judge undisturbed
    ! grep -v " 0 FAILED" "$run.answer" | grep FAILED >&2 || fail "$tester failed checks"
done
