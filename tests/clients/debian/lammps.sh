#!/usr/bin/env bash
# LAMMPS: molecular dynamics in C++. Each line of the table of energies has the same digits.
source "$(dirname "$0")/debian.sh"
unpacked lammps

job=("$root/usr/bin/lmp" -in melt.lammps)
inputs() { cp "$here/debian/melt.lammps" .; }
answer() { sed -n '/^Step/,/^Loop/{/^Loop/!p}' log.lammps; }

same_as_openmpi
killed_in_each_mode
moved
restarted_elsewhere
