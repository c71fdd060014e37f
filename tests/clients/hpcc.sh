#!/usr/bin/env bash
# HPC Challenge 1.5.0 (upstream tarball of Debian's source package): HPL, PTRANS, RandomAccess,
# FFT, STREAM, b_eff on 4 ranks; every part checks its own residuals.
source "$(dirname "$0")/common.sh"

needs_package libblas-dev /usr/lib/x86_64-linux-gnu/blas/libblas.so
debian_source hpcc
rm -rf "$work/hpcc" && mkdir "$work/hpcc"
tar -xf "$work"/src/hpcc_*.orig.tar.* -C "$work/hpcc" --strip-components=1
cd "$work/hpcc"
sed "s#@MPICC@#$mpicc#" "$here/hpcc.make" >hpl/Make.rejoin
logged hpcc-build make -j2 arch=rejoin

# A matrix of 400 in blocks of 40: each part works, none takes long.
sed -e '6s/1000/400/' -e '8s/80/40/' _hpccinf.txt >hpccinf.txt
if ! bounded 300 "$mpirun" -n 4 ./hpcc >"$work/hpcc-run.log" 2>&1; then
    tail -n 20 "$work/hpcc-run.log" >&2
    fail "hpcc on 4 ranks"
fi
residuals() {
    grep -q '^Success=1$' hpccoutf.txt || fail "hpcc does not report success $1"
    grep -q ' 0 tests completed and failed residual checks' hpccoutf.txt || fail "a residual check failed $1"
    grep -q 'FAILED' hpccoutf.txt && fail "$(grep -m1 FAILED hpccoutf.txt) $1"
    say "hpcc on 4 ranks passed $1 ($(grep -c PASSED hpccoutf.txt) residual checks)"
}
residuals "undisturbed"

# All its processes are killed at once in the middle, and the job continues from files. A larger
# matrix takes more than a second.
sed -e '8s/80/40/' _hpccinf.txt >hpccinf.txt
rm hpccoutf.txt
killed_in_the_middle hpcc 2 -n 4 ./hpcc
if ! restarted hpcc >"$work/hpcc-again.log" 2>&1; then
    tail -n 20 "$work/hpcc-again.log" >&2
    fail "hpcc restarted"
fi
residuals "killed and restarted"
