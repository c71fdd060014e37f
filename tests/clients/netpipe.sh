#!/usr/bin/env bash
# NetPIPE 3.7.2 (upstream tarball of Debian's source package): its MPI driver, streaming,
# bidirectional, with integrity checking.
source "$(dirname "$0")/common.sh"

debian_source netpipe
rm -rf "$work/netpipe" && mkdir "$work/netpipe"
tar -xf "$work"/src/netpipe_*.orig.tar.* -C "$work/netpipe" --strip-components=1
cd "$work/netpipe"
logged netpipe-build "$mpicc" -O2 -w -DMPI src/netpipe.c src/mpi.c -o NPmpi -Isrc

run() {
    local name=$1
    shift
    if ! bounded 100 "$mpirun" -n 2 ./NPmpi "$@" >"$work/netpipe-$name.log" 2>&1; then
        tail -n 20 "$work/netpipe-$name.log" >&2
        fail "NPmpi $*"
    fi
    say "NPmpi $* passed ($(grep -c -- '-->' "$work/netpipe-$name.log") sizes)"
}

run pingpong -u 262144 -n 20 -o np.out
run async -a -u 65536 -n 20 -o np.out
run ssend -S -u 65536 -n 20 -o np.out
run bidirectional -2 -a -u 65536 -n 20 -o np.out
run integrity -i -u 262144 -n 10 -o np.out
grep -qi "integrity check failed\|error" "$work/netpipe-integrity.log" && fail "integrity check"
exit 0
