#!/usr/bin/env bash
# SuperLU_DIST, a direct solver in C: its examples and its tester, as Debian has compiled them. Left
# out: those that spawn, those for three dimensions with several layers, which meet a zero pivot on
# Open MPI, too, and pddrive3d3, which frees a file twice.
source "$(dirname "$0")/debian.sh"
unpacked libsuperlu-dist8
debian_binaries superlu-tests libsuperlu-dist-dev

tests=$(echo "$work"/debian/superlu-tests/usr/lib/*/superlu-dist/tests)
inputs() { cp "$tests"/EXAMPLE/*.?ua .; }
# All but times, rates and the use of memory, which some examples print before they have set it. Of
# two groups of ranks either prints first. Residuals of rounding depend on who sends first.
answer() {
    grep -vE '^\*\*|[tT]ime |flops|Sum-of-all|^ *Max|^\s*(\.|L.U) ' "$run.out" |
        sed -E "s/[0-9.]+e-1[0-9]/tiny/g; s/[0-9.]+e-0[3-7]/small/g" | sort
}

# examples MPI: all, each on its grid of ranks.
examples() {
    local example grid matrix ranks
    for example in p{d,s,z}drive{,1,2,3,4,3d,3d1,3d2} p{d,z}drive{,1,2,3,4}_ABglobal; do
        ranks=4 grid=(-r 2 -c 2) matrix=g20.rua
        case $example in
        *drive4*) ranks=10 grid=() ;;
        *3d*) grid+=(-d 1) ;;
        esac
        [[ $example != pz* ]] || matrix=cg20.cua
        echo "the next one is $example"
        "on_$1" $ranks "$tests/EXAMPLE/$example" "${grid[@]}" $matrix || return
    done
    "on_$1" 4 "$tests/EXAMPLE/pddrive1" -r 2 -c 2 big.rua
}

# tester MPI: some grids and numbers of right-hand sides.
tester() {
    local rows columns sides
    for rows in 1 2; do
        for columns in 1 2; do
            for sides in 1 3; do
                "on_$1" $((rows * columns)) "$tests/TEST/pdtest" -r $rows -c $columns -s $sides \
                    -b 2 -x 8 -m 20 -f g20.rua || return
            done
        done
    done
}

for what in examples tester; do
    at "openmpi-$what"
    done_by $what openmpi
    expected=$run.answer
    answer >"$expected"
    [ "$(grep -c 'Xtrue\|driver' "$expected")" -ge 8 ] ||
        fail "no answer on Open MPI: $(cat "$run.out")"
    at "rejoin-$what"
    done_by $what rejoin
    judge "$what"
done
