#!/usr/bin/env bash
# The library for Fortran calls nothing but the standard ABI: programs that mpifort has compiled run
# on MPICH (its wheel from PyPI) with the same libmpifort_abi, and give the same answers. Also with
# flang, where Debian's flang-19 is installed.
source "$(dirname "$0")/common.sh"

venv=$work/mpich-fortran-venv
if [ ! -x "$venv/bin/mpiexec" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    logged fortran-fetch "$venv/bin/pip" install -q mpich==5.0.2
fi
programs=$here/../programs
export XDG_CACHE_HOME=$work/fortran-cache

# tried COMPILER: all programs with this compiler, on both libraries.
tried() {
    local folder name ranks arguments
    folder=$work/fortran-$(basename "$1")
    rm -rf "$folder" && mkdir -p "$folder"
    for source in "$programs"/fortran_*; do
        name=$(basename "${source%.*}")
        (cd "$folder" && REJOIN_FC=$1 logged "fortran-$name" "$prefix/bin/mpifort" -O2 -o "$folder/$name" "$source")
        # A sum of two has the same last digit in any order. MPICH's transport may not reach a
        # process that has just been started ("Shared memory error"), with any program.
        ranks=3 arguments=() times=1
        case $name in
        fortran_plate) ranks=2 ;;
        fortran_io) arguments=("$folder/file") ;;
        fortran_spawn) times=10 ;;
        esac
        until bounded 120 env LD_LIBRARY_PATH="$venv/lib" "$venv/bin/mpiexec" -n $ranks "$folder/$name" \
            "${arguments[@]}" >"$folder/$name.mpich" 2>"$folder/$name.errors"; do
            times=$((times - 1))
            [ $times -gt 0 ] && grep -q "Shared memory error" "$folder/$name.errors" && continue
            fail "$name on MPICH: $(cat "$folder/$name".mpich "$folder/$name.errors")"
        done
        # Those have what Rejoin lacks.
        case $name in fortran_beyond | fortran_spawn) continue ;; esac
        bounded 120 "$mpirun" -n $ranks "$folder/$name" "${arguments[@]}" >"$folder/$name.rejoin" 2>"$folder/$name.errors" ||
            fail "$name: $(cat "$folder/$name".rejoin "$folder/$name.errors")"
        diff "$folder/$name.mpich" "$folder/$name.rejoin" || fail "$name differs from MPICH's answer"
    done
    say "programs of Fortran that $(basename "$1") has compiled give the same answers on MPICH"
}

tried gfortran
flang=$(command -v flang-new-19 || true)
if [ -n "$flang" ]; then
    tried "$flang"
else
    say "flang is not installed: tried with gfortran only"
fi
