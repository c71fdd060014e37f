#!/usr/bin/env bash
# Quantum ESPRESSO (pw.x): electrons of silicon with plane waves, in Fortran with ScaLAPACK.
source "$(dirname "$0")/debian.sh"
unpacked quantum-espresso quantum-espresso-data

job=("$root/usr/bin/pw.x" -in silicon.in)
inputs() {
    gunzip -c "$root/usr/share/doc/quantum-espresso/examples/EPW/sic/pp/Si.pz-vbc.UPF.gz" >Si.pz-vbc.UPF
    cat >silicon.in <<'INPUT'
&control
    calculation = 'scf', prefix = 'si', pseudo_dir = '.', outdir = 'tmp', tprnfor = .true., tstress = .true.
/
&system
    ibrav = 2, celldm(1) = 10.2, nat = 2, ntyp = 1, ecutwfc = 24.0
/
&electrons
    conv_thr = 1.0d-10
/
ATOMIC_SPECIES
    Si 28.086 Si.pz-vbc.UPF
ATOMIC_POSITIONS alat
    Si 0.00 0.00 0.00
    Si 0.26 0.25 0.25
K_POINTS automatic
    6 6 6 1 1 1
INPUT
}
# A zero has the sign that rounding gives it, which depends on the order of a sum.
answer() {
    grep -E '^!|atom .*force =|Total force|highest|P=|convergence has been' "$run.out" | sed -E 's/-(0\.0+)( |$)/ \1\2/g'
}

same_as_openmpi
killed_in_each_mode
