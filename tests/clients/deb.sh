#!/usr/bin/env bash
# The Debian package: dpkg installs it into a folder, programs run on it there, the alternatives are
# those of Debian's other MPIs, and dpkg removes it again.
source "$(dirname "$0")/common.sh"
root=$here/../..
out=$work/deb
rm -rf "$out" && mkdir -p "$out/again"
unset LD_LIBRARY_PATH
export XDG_CACHE_HOME=$out/cache SOURCE_DATE_EPOCH=1700000000
for folder in "$out" "$out/again"; do
    (cd "$root" && logged deb-make cargo xtask deb --installed "$prefix" --out "$folder")
done
package=$(echo "$out"/rejoin_*_amd64.deb)
cmp "$package" "$out/again/$(basename "$package")" || fail "the same installation gives another package"
dpkg-deb --info "$package" >"$out/info" || fail "dpkg-deb --info"
grep -qE '^ Depends: libc6 \(>= 2\.[0-9]+\), libgcc-s1$' "$out/info" || fail "dependencies: $(cat "$out/info")"
dpkg-deb --contents "$package" >"$out/contents" || fail "dpkg-deb --contents"
! grep -v ' root/root ' "$out/contents" || fail "files have other owners"
# Each file is in a folder of Debian's for such files.
! awk '{ print $6 }' "$out/contents" | grep -v '/$' |
    grep -vE '^\./usr/(lib/x86_64-linux-gnu/rejoin|bin|share/(man/man1|doc/rejoin|bash-completion|zsh|fish))/' ||
    fail "files lie elsewhere"

# in_root OPTIONS: dpkg in that root, with the scripts of the package, but none of its dependencies.
target=$out/root
in_root() { bounded 60 dpkg --root="$target" --force-script-chrootless --force-depends "$@"; }
mkdir -p "$target/var/lib/dpkg/info" "$target/var/lib/dpkg/updates" "$target/var/lib/dpkg/alternatives" \
    "$target/var/log" "$target/etc/alternatives"
touch "$target/var/lib/dpkg/status"
[ "$(id -u)" = 0 ] || fail "only root may install packages"
logged deb-install in_root --install "$package"
logged deb-verify in_root --verify rejoin
[ ! -s "$work/deb-verify.log" ] || fail "files differ from their hashes: $(cat "$work/deb-verify.log")"

# chosen LINK PATH: an alternative leads there.
chosen() {
    local name
    name=$(readlink "$target/$1") || fail "no alternative $1"
    [ "$(readlink "$target$name")" = "/$2" ] && [ -e "$target/$2" ] || fail "$1 is $(readlink "$target$name")"
}
for name in mpirun mpiexec mpicc mpicxx mpic++ mpifort mpif77 mpif90; do
    chosen "usr/bin/$name" "usr/bin/$name.rejoin"
    chosen "usr/share/man/man1/$name.1.gz" "usr/share/man/man1/$name.rejoin.1.gz"
    zcat "$target/usr/share/man/man1/$name.rejoin.1.gz" | grep -q '^\.SH' || fail "no page of $name"
done
chosen usr/share/bash-completion/completions/mpirun.bash \
    usr/lib/x86_64-linux-gnu/rejoin/share/bash-completion/completions/mpirun.bash
grep -q rejoin "$target/usr/share/bash-completion/completions/rejoin.bash" || fail "no completions of rejoin"

zcat "$target/usr/share/doc/rejoin/licenses-of-crates.gz" | grep '^mio [0-9.]*: MIT$' >/dev/null || fail "no licences of crates"

bin=$target/usr/bin
logged deb-cc "$bin/mpicc.rejoin" -O2 -o "$out/ring" "$root/examples/ring.c"
text=$(bounded 60 "$bin/mpirun.rejoin" -n 4 "$out/ring" 3) || fail "ring"
[ "$text" = $'round 1: 1006\nround 2: 2006\nround 3: 3006' ] || fail "ring printed: $text"
logged deb-survive bounded 120 "$root/examples/survive.sh" "$target/usr/lib/x86_64-linux-gnu/rejoin"
grep -q "rank 2 is back" "$work/deb-survive.log" || fail "nobody came back"
needs_package gfortran /usr/bin/gfortran
logged deb-fortran "$bin/mpifort.rejoin" -o "$out/fortran" "$here/../programs/fortran_plate.f90"
bounded 60 "$bin/mpirun.rejoin" -n 2 "$out/fortran" >"$out/fortran.log" || fail "Fortran"
say "programs run on the package in a root of its own, and lose a rank"

logged deb-purge in_root --purge rejoin
left=$(find "$target" ! -type d ! -path "$target/var/*")
[ -z "$left" ] || fail "the package leaves files behind: $left"
say "the package is removed without a trace"
