#!/usr/bin/env bash
# CP2K: a water molecule, five steps with forces from density functional theory, in Fortran.
source "$(dirname "$0")/debian.sh"
unpacked cp2k

export CP2K_DATA_DIR=$root/usr/share/cp2k
job=("$root/usr/bin/cp2k.psmp" -i water.inp)
inputs() {
    cat >water.inp <<'INPUT'
&GLOBAL
    PROJECT water
    RUN_TYPE MD
    PRINT_LEVEL LOW
&END
&MOTION
    &MD
        ENSEMBLE NVE
        STEPS 5
        TIMESTEP 0.5
        TEMPERATURE 300
    &END
&END
&FORCE_EVAL
    METHOD QS
    &DFT
        BASIS_SET_FILE_NAME BASIS_SET
        POTENTIAL_FILE_NAME GTH_POTENTIALS
        &MGRID
            CUTOFF 200
        &END
        &XC
            &XC_FUNCTIONAL PADE
            &END
        &END
    &END
    &SUBSYS
        &CELL
            ABC 6 6 6
        &END
        &COORD
            O 0.000000 0.000000 -0.065587
            H 0.000000 -0.757136 0.520545
            H 0.000000 0.757136 0.520545
        &END
        &KIND H
            BASIS_SET DZVP-GTH-PADE
            POTENTIAL GTH-PADE-q1
        &END
        &KIND O
            BASIS_SET DZVP-GTH-PADE
            POTENTIAL GTH-PADE-q6
        &END
    &END
&END
INPUT
}
# The last column is the time that a step took.
answer() { awk '{ $NF = ""; print }' water-1.ener && cat water-pos-1.xyz; }

same_as_openmpi
killed_in_each_mode
