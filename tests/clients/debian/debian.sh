# Shared by the scripts of programs that Debian compiled for its Open MPI 4.1; each is run as
# NAME.sh PREFIX WORK. A script sets `job`, the command of its ranks, and defines two functions:
# `inputs` writes the input files into the present folder, and `answer` prints what must be the same
# in each run. The output of a run is in $run.out and $run.err.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
source "$here/facade.sh"
# Some programs have a script of their own sources, too.
client=debian-$client
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
ranks=4
# More options of Rejoin's mpirun.
options=()
# What still runs when a script fails ends with it.
trap 'for left in $(jobs -p); do kill $left $(below $left) 2>/dev/null || true; done' EXIT

# unpacked PACKAGES...: unpacks these, Debian's Open MPI, and what they need and the machine lacks
# into $root; nothing is installed.
unpacked() {
    root=$work/debian/unpacked/${client#debian-}
    local archives=$work/debian/archives-$client package
    if [ ! -d "$root" ]; then
        mkdir -p "$archives/partial" "$work/debian/unpacked"
        rm -rf "$root.new" && mkdir "$root.new"
        logged "fetch-lists-$client" apt_of_own update
        logged "fetch-$client" apt_of_own -y --no-install-recommends --download-only --reinstall \
            -o Debug::NoLocking=1 -o "Dir::Cache::archives=$archives" install openmpi-bin libopenmpi3 openmpi-common libpmix2 "$@"
        for package in "$archives"/*.deb; do dpkg-deb -x "$package" "$root.new"; done
        rm -r "$archives"
        mv "$root.new" "$root"
    fi
    libraries=$root/usr/lib/$(gcc -print-multiarch)
    # BLAS and LAPACK are chosen at installation; here they are Debian's plain ones.
    export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack:$root/lib/$(gcc -print-multiarch)
}

# on_openmpi RANKS COMMAND...: on the MPI for which Debian has compiled the program.
on_openmpi() {
    bounded 600 env OPAL_PREFIX="$root/usr" OPAL_LIBDIR="$libraries/openmpi/lib" OPAL_SYSCONFDIR="$root/etc/openmpi" \
        PMIX_INSTALL_PREFIX="$root/usr" PMIX_PKGLIBDIR="$libraries/pmix2/lib/pmix" OMPI_ALLOW_RUN_AS_ROOT=1 \
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mca_base_component_show_load_errors=0 \
        "$root/usr/bin/mpirun.openmpi" --oversubscribe -n "$@"
}

# on_rejoin RANKS COMMAND...
on_rejoin() { bounded 600 "$mpirun" "${options[@]}" --recovery none -n "$@"; }

# at NAME: goes to a fresh folder of a run, with its inputs.
at() {
    run=$work/debian/runs/${client#debian-}-$1
    rm -rf "$run" "$run".* && mkdir -p "$run" && cd "$run"
    inputs
}

# done_by COMMAND...: a run, which must succeed.
done_by() { "$@" >"$run.out" 2>"$run.err" || fail "$*: $(tail -n 20 "$run.out" "$run.err")"; }

# judge WHAT: the answer of the present run is Open MPI's.
judge() {
    answer >"$run.answer"
    diff "$expected" "$run.answer" >&2 || fail "$1: another answer than on Open MPI (< $expected > $run.answer)"
    say "$1: the answer of Open MPI"
}

# timed: lines "microseconds of Open MPI<TAB>those of Rejoin" of runs in turns on 2 ranks.
timed() {
    local round mpi begun
    declare -A took
    on_defaults() { bounded 600 "$mpirun" "${options[@]}" -n "$@"; }
    for round in $(seq "$BENCH_ROUNDS"); do
        for mpi in $([ $((round % 2)) = 0 ] && echo openmpi defaults || echo defaults openmpi); do
            at "timed-$mpi"
            begun=${EPOCHREALTIME/./}
            done_by "on_$mpi" 2 "${job[@]}"
            took[$mpi]=$((${EPOCHREALTIME/./} - begun))
        done
        printf '%s\t%s\n' "${took[openmpi]}" "${took[defaults]}" >>"$BENCH_TIMES"
    done
}

# same_as_openmpi: first the answer there, then an undisturbed run here.
same_as_openmpi() {
    if [ -n "${BENCH_TIMES-}" ]; then
        timed
        exit 0
    fi
    at openmpi
    done_by on_openmpi $ranks "${job[@]}"
    expected=$run.answer
    answer >"$expected"
    [ "$(wc -w <"$expected")" -ge 4 ] || fail "no answer on Open MPI: $(tail -n 20 "$run.out")"
    at rejoin
    done_by on_rejoin $ranks "${job[@]}"
    judge undisturbed
}

# killed_in_each_mode: two of four ranks are killed, one after the other.
killed_in_each_mode() {
    local mode
    for mode in coordinated sender-log receiver-log; do
        at "$mode"
        survives "${run#"$work/"}" "${options[@]}" --recovery "$mode" "${job[@]}"
        judge "two ranks killed, --recovery $mode"
    done
}

# two_hosts: this machine is both hosts, under two names, with two ranks each.
two_hosts() {
    printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >"$work/debian/agent"
    chmod +x "$work/debian/agent"
    hosts=(--launch-agent "$work/debian/agent" --host localhost:2,elsewhere:2)
}

# moved: a rank moves to another host while the job runs.
moved() {
    at moved
    two_hosts
    bounded 300 "$mpirun" "${options[@]}" "${hosts[@]}" --checkpoint-interval 0.2 "${options[@]}" -n 4 "${job[@]}" >"$run.out" 2>"$run.err" &
    local job_pid=$! of_job=
    for _ in $(seq 1000); do
        of_job=$(mpirun_below $job_pid)
        [ -z "$of_job" ] || ! "$prefix/bin/rejoin" status --json "$of_job" 2>/dev/null | grep -q '"committed": *[1-9]' || break
        kill -0 $job_pid 2>/dev/null || fail "ended before a rank moved: $(cat "$run.err")"
        sleep 0.02
    done
    bounded 120 "$prefix/bin/rejoin" migrate 1 --to elsewhere --job "$of_job" >"$run.migrate" 2>&1 ||
        fail "rank 1 did not move: $(cat "$run.migrate" "$run.err")"
    wait $job_pid || fail "moved: $(cat "$run.err")"
    grep -q "rank 1 has moved .* to host elsewhere" "$run.err" || fail "mpirun does not say that rank 1 moved: $(cat "$run.err")"
    judge "a rank moved"
}

# restarted_elsewhere: all processes are killed, and the job goes on from files, on two hosts
# instead of one.
restarted_elsewhere() {
    at restarted
    killed_in_the_middle "$client" 2 "${options[@]}" -n 4 "${job[@]}"
    two_hosts
    done_by restarted "$client" "${hosts[@]}"
    judge "restarted from files on two hosts"
}
