#!/bin/sh
# fortran-modules PREFIX COMPILER...: compiles MPI's modules for this compiler, once for each of its
# versions, and prints their folder. Part of Rejoin.
set -u

prefix=$1
shift
sources=$prefix/share/rejoin/fortran
version=$("$@" --version 2>/dev/null | head -n 1)
if [ -z "$version" ]; then
    echo "mpifort: $*: does not run, or says no version; REJOIN_FC names another Fortran compiler" >&2
    exit 1
fi
name=$(basename -- "$1")-$({
    echo "$* $version"
    cat "$sources/stamp"
} | cksum | cut -d ' ' -f 1)

# Beside the installation, or in the user's cache.
shared=$prefix/lib/rejoin/fortran
own=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/rejoin/fortran
for base in "$shared" "$own"; do
    if [ -f "$base/$name/mpifort.o" ]; then
        echo "$base/$name"
        exit 0
    fi
done
base=$shared
if ! mkdir -p "$base" 2>/dev/null || ! [ -w "$base" ]; then
    base=$own
    mkdir -p "$base" || exit 1
fi
fresh=$(mktemp -d "$base/.new.XXXXXX") || exit 1
trap 'rm -rf "$fresh"' EXIT
chmod 755 "$fresh"

# step WHAT COMMAND...: says what failed, and why.
step() {
    what=$1
    shift
    "$@" >"$fresh/log" 2>&1 </dev/null && return
    cat "$fresh/log" >&2
    echo "mpifort: $what" >&2
    exit 1
}

cd "$fresh" || exit 1
step "$version does not compile MPI's modules" "$@" -c -O1 -fPIC "$sources/mpi_modules.f90" -o mpifort.o
step "$version does not link a program" "$@" "$sources/probe.f90" mpifort.o -o probe -I"$fresh" -L"$prefix/lib" \
    -Wl,-rpath,"$prefix/lib" -lmpifort_abi -lmpi_abi
step "$version does not pass arguments as libmpifort_abi reads them" ./probe
rm -f probe probe.o log
# Another process may have been faster.
mv -T "$fresh" "$base/$name" 2>/dev/null || [ -f "$base/$name/mpifort.o" ] || exit 1
echo "$base/$name"
