#!/usr/bin/env bash
# Tools of PnetCDF, which make, show and compare files by MPI-IO.
source "$(dirname "$0")/debian.sh"
unpacked pnetcdf-bin

job=("$root/usr/bin/ncmpigen" -v 5 -o table.nc table.cdl)
inputs() {
    {
        printf 'netcdf table {\ndimensions:\n x = 2000 ;\n time = unlimited ;\n'
        printf 'variables:\n double square(x) ;\n square:units = "m2" ;\n int row(time) ;\ndata:\n square = '
        seq -s ', ' 2000
        printf ';\n row = 1, 2, 3, 5, 8 ;\n}\n'
    } >table.cdl
}
answer() { sha256sum table.nc && on_openmpi 1 "$root/usr/bin/ncmpidump" table.nc; }
ranks=1
same_as_openmpi

# Several ranks read, and compare.
on_rejoin 1 "$root/usr/bin/ncmpidump" table.nc >"$run.dump" || fail "ncmpidump"
sed 1d "$run.answer" | diff - "$run.dump" >&2 || fail "ncmpidump shows something else"
on_rejoin 4 "$root/usr/bin/ncmpidiff" table.nc "${expected%.answer}/table.nc" >"$run.diff" 2>&1 || fail "ncmpidiff: $(cat "$run.diff")"
sed 's/square = 1,/square = 7,/' table.cdl >other.cdl
on_rejoin 1 "$root/usr/bin/ncmpigen" -v 5 -o other.nc other.cdl
if on_rejoin 4 "$root/usr/bin/ncmpidiff" table.nc other.nc >"$run.other" 2>&1; then fail "ncmpidiff sees no difference"; fi
grep -q "DIFF.*square" "$run.other" || fail "ncmpidiff: $(cat "$run.other")"
say "four ranks compare files as they should"
