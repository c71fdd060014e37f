# Shared by the scripts that check a façade for another MPI's programs; common.sh comes before it.
# They set `facade` (the library), `tables` (its folder `abi`) and `status_bytes`.

# symbols LIBRARY: what it exports, with its size.
symbols() { nm -D -S --defined-only --format=posix "$1" | awk '{ print $1, $2, ($4 == "" ? 0 : $4) }' | sort; }

# handles_of_tables: lines of C that compare predefined handles, which are addresses or integers.
handles_of_tables() {
    local name symbol number value
    if [ -e "$tables/handles.tsv" ]; then
        awk -F'\t' 'FNR > 1 { print $1, $2 }' "$tables/handles.tsv" | while read -r name value; do
            # A header names types that its compiler lacks, too.
            printf '#ifdef %s\nif ((int) %s != (int) MPI_DATATYPE_NULL) SAME((int) %s, (int) %s);\n#endif\n' "$name" "$name" "$name" "$value"
        done
        return
    fi
    awk -F'\t' 'FNR > 1 && $1 !~ /c_complex$|unavailable|throw_exceptions/ && $4 != "-" { print $4, $1, $3 }' "$tables/objects.tsv" |
        while read -r name symbol number; do
            printf '#ifdef %s\nSAME(%s, &%s);\n#endif\n' "$name" "$name" "$symbol"
            case $name in
            MPI_COMM_*) echo "SAME(MPI_Comm_c2f($name), $number);" ;;
            MPI_INT | MPI_DOUBLE) echo "SAME(MPI_Type_c2f($name), $number);" ;;
            esac
        done
}

# layout VERSION INCLUDE LIBRARY: the façade has this version's functions, the sizes of its objects,
# and the constants of its headers.
layout() {
    local version=$1 include=$2 library=$3 out=$work/$client-layout-$1
    symbols "$library" >"$out.theirs"
    symbols "$facade" >"$out.ours"
    # Functions of C. Those of Fortran that lie in this library have lower-case names.
    awk '$1 ~ /^P?MPIX?_([A-Z][a-z]|T_)/ && $2 ~ /[TW]/ { print $1 }' "$out.theirs" >"$out.functions"
    [ "$(wc -l <"$out.functions")" -gt 800 ] || fail "$version has too few functions"
    awk 'NR == FNR { has[$1]; next } !($1 in has)' "$out.ours" "$out.functions" >"$out.missing"
    [ ! -s "$out.missing" ] || fail "the façade lacks functions of $version: $(tr '\n' ' ' <"$out.missing")"
    # Of common blocks for statuses the longer one of several versions is right.
    awk 'NR == FNR { size[$1] = $3; next }
        $2 ~ /[BDRV]/ && ($1 in size) && size[$1] != $3 && !($1 ~ /status(es)?_ignore_$/ && $3 >= size[$1])' \
        "$out.theirs" "$out.ours" >"$out.sizes"
    [ ! -s "$out.sizes" ] || fail "objects have other sizes than in $version: $(cat "$out.sizes")"
    {
        printf '#include <mpi.h>\n#include <stdio.h>\nstatic int wrong, seen;\n'
        printf '#define SAME(name, value) do { seen++; if ((long long) (name) != (long long) (value)) { wrong++; printf("%%s\\n", #name); } } while (0)\n'
        printf 'int main(void) {\n'
        # A header has only the constants and objects of its own version and compiler.
        awk -F'\t' 'FNR > 1 && $1 !~ / out$/ { print $2, $3 }' "$tables/constants.tsv" |
            while read -r name value; do
                ! grep -qwh "$name" "$include"/mpi*.h || echo "SAME($name, $value);"
            done
        handles_of_tables
        printf 'SAME(sizeof(MPI_Status), %s);\nprintf("%%d of %%d\\n", wrong, seen);\nreturn wrong != 0;\n}\n' "$status_bytes"
    } >"$out.c"
    logged "$client-layout-$version" gcc -w -I"$include" -o "$out" "$out.c" "$facade" -Wl,--unresolved-symbols=ignore-in-shared-libs
    LD_LIBRARY_PATH=$(dirname "$facade") bounded 60 "$out" >"$out.found" || fail "other constants than in $version: $(cat "$out.found")"
    [ "$(sed 's/.* of //' "$out.found")" -gt 200 ] || fail "$version has too few constants: $(cat "$out.found")"
    say "the façade is what the header and the library of $version say ($(cat "$out.found") constants differ, $(wc -l <"$out.functions") functions)"
}

# run NAME RANKS ARGUMENTS...: a program that says itself whether all is right.
run() {
    local name=$1 ranks=$2
    shift 2
    bounded 60 "$mpirun" -n "$ranks" "$work/$client-$name" "$@" >"$work/$client-$name.log" 2>&1 || fail "$name: $(cat "$work/$client-$name.log")"
}

# survives NAME COMMAND...: two ranks are killed, one after the other, each with images of all
# there. The output goes to $work/NAME.out.
survives() {
    local name=$1 log=$work/$1
    shift
    bounded 300 "$mpirun" --checkpoint-interval 0.2 -n 4 "$@" >"$log.out" 2>"$log.err" &
    local job=$! mpirun_of_job= pid victim
    for victim in 1 2; do
        pid=
        for _ in $(seq 1000); do
            mpirun_of_job=$(mpirun_below $job)
            # Without a name, the status is that of all jobs of the machine.
            [ -n "$mpirun_of_job" ] && pid=$("$prefix/bin/rejoin" status --json "$mpirun_of_job" 2>/dev/null | python3 -c '
import json, sys
job = json.load(sys.stdin)[0]
ready = job["committed"] >= 2 and job["recoveries"] == int(sys.argv[1]) - 1 and job["course"] == "running"
print(job["ranks"][int(sys.argv[1])]["pid"] if ready else "")' $victim 2>/dev/null) || pid=
            [ -z "$pid" ] || break
            kill -0 $job 2>/dev/null || break
            sleep 0.02
        done
        [ -n "$pid" ] || fail "$name: ended before rank $victim was killed: $(cat "$log.err")"
        kill -9 "$pid"
    done
    wait $job || fail "$name lost ranks: $(cat "$log.err")"
    [ "$(grep -c "is back after\|are back after" "$log.err")" -ge 2 ] || fail "$name: nobody came back: $(cat "$log.err")"
}
