# Shared by the client scripts: where things are, and how sources are fetched.
# Each client script is run as: NAME.sh PREFIX WORK
#   PREFIX  an installed Rejoin (cargo xtask install --prefix PREFIX)
#   WORK    a folder for sources, builds and logs; kept between runs

set -euo pipefail
# What tools print is read here: in one language, and nothing asks a person.
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
# Fetching is tried again when the network fails; what a program does is not.
export PIP_RETRIES=5 PIP_TIMEOUT=60 PIP_DISABLE_PIP_VERSION_CHECK=1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=$(cd "$1" && pwd)
mkdir -p "$2"
work=$(cd "$2" && pwd)
export HOME=${HOME:-$work}
mpicc=$prefix/bin/mpicc
mpirun=$prefix/bin/mpirun
client=$(basename "$0" .sh)

say() { echo "$client: $*"; }
fail() {
    echo "$client: FAILED: $*" >&2
    exit 1
}

# Runs a command with its output in a log, which is shown when the command fails.
logged() {
    local log=$work/$1.log
    shift
    if ! "$@" >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        fail "$* (log: $log)"
    fi
}

# apt_of_own COMMAND...: apt-get with package lists of the script's own: nothing of the machine's is
# changed, and no other script's lock is met.
apt_of_own() {
    mkdir -p "$work/apt-$client/lists/partial"
    apt-get -q -o Acquire::Retries=3 -o "Dir::State::lists=$work/apt-$client/lists" -o Dir::Cache::pkgcache= \
        -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root "$@"
}

# debian_source NAME: the upstream tarball of a Debian source package, into $work/src.
debian_source() {
    local name=$1 apt=$work/apt-$client
    mkdir -p "$work/src" "$apt/parts"
    compgen -G "$work/src/${name}_*.orig.tar.*" >/dev/null && return
    {
        sed 's/^Types:.*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources 2>/dev/null || true
    } >"$apt/parts/source.sources"
    sed -n 's/^deb /deb-src /p' /etc/apt/sources.list 2>/dev/null >"$apt/parts/source.list" || true
    local options=(-o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$apt/parts")
    logged "fetch-lists-$name" apt_of_own "${options[@]}" update
    # Into a folder of its own first: what a broken download leaves is never taken for the tarball.
    rm -rf "$work/src/fresh-$name" && mkdir "$work/src/fresh-$name"
    (cd "$work/src/fresh-$name" && logged "fetch-$name" apt_of_own "${options[@]}" source --download-only --tar-only "$name")
    mv "$work/src/fresh-$name"/* "$work/src/"
    rmdir "$work/src/fresh-$name"
}

# needs_package PACKAGE FILE: installs a Debian package when FILE is not there yet.
needs_package() {
    [ -e "$2" ] && return
    say "installing Debian package $1"
    [ "$(id -u)" = 0 ] || fail "$1 is missing, and only root may install it: apt-get install $1"
    logged "apt-update" apt-get -q -o Acquire::Retries=3 update
    logged "apt-$1" apt-get -q -o Acquire::Retries=3 install -y "$1"
}

# Bounded run: no client may hang the tests.
bounded() { timeout --kill-after=10 "$@"; }

# below PID: the processes below it.
below() {
    local child
    for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
        echo "$child"
        below "$child"
    done
}

# mpirun_below PID: the mpirun below this process, behind a shell and timeout.
mpirun_below() {
    local process
    for process in $(below "$1"); do
        [ "$(cat "/proc/$process/comm" 2>/dev/null)" != mpirun ] || { echo "$process" && return; }
    done
}

# killed_in_the_middle NAME COMMITS MPIRUN-ARGUMENTS...: runs a job of this name with files of its
# images, and kills all its processes at once when so many checkpoints are in files. Its output goes
# to $work/NAME-first.log.
killed_in_the_middle() {
    local name=$1 commits=$2 images=$work/$1-images events=$work/$1-events log=$work/$1-first.log
    shift 2
    rm -rf "$images" "$events"
    mkdir "$images"
    bounded 120 "$mpirun" --images "$images" --job-name "$name" --events "$events" \
        --checkpoint-interval 0.2 --image-interval 0.2 "$@" >"$log" 2>&1 &
    local job=$! in_files=0
    for _ in $(seq 2000); do
        in_files=$(grep -c '"level":"file"' "$events" 2>/dev/null || true)
        [ "${in_files:-0}" -ge "$commits" ] && break
        kill -0 $job 2>/dev/null || break
        sleep 0.02
    done
    [ "${in_files:-0}" -ge "$commits" ] || fail "$name: too few checkpoints in files: $(tail -n 5 "$log")"
    kill -0 $job 2>/dev/null || fail "$name ended before it was to be killed"
    local processes
    processes=$(below $job)
    # shellcheck disable=SC2086
    kill -9 $job $processes 2>/dev/null || true
    wait $job 2>/dev/null || true
    for _ in $(seq 500); do
        # shellcheck disable=SC2086
        kill -0 $processes 2>/dev/null || return 0
        sleep 0.02
    done
    fail "$name: processes do not end: $processes"
}

# restarted NAME MPIRUN-OPTIONS...: the rest of that job.
restarted() {
    local name=$1
    shift
    bounded 300 "$mpirun" --images "$work/$name-images" --restart="$name" "$@"
}

# debian_binaries FOLDER PACKAGES...: unpacks Debian's packages into $work/debian/FOLDER; nothing is
# installed.
debian_binaries() {
    local folder=$work/debian/$1
    shift
    [ -d "$folder" ] && return
    rm -rf "$folder.new" && mkdir -p "$folder.new"
    logged "fetch-lists-$client" apt_of_own update
    (cd "$folder.new" && logged "fetch-binaries" apt_of_own download "$@")
    for package in "$folder.new"/*.deb; do dpkg-deb -x "$package" "$folder.new"; done
    rm "$folder.new"/*.deb
    mv "$folder.new" "$folder"
}
