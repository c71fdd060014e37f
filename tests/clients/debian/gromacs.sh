#!/usr/bin/env bash
# GROMACS: 1728 molecules of water, in C++. With -reprod the digits do not depend on the balance of
# the load.
source "$(dirname "$0")/debian.sh"
unpacked gromacs

export GMXLIB=$root/usr/share/gromacs/top
job=("$root/usr/bin/gmx_mpi" -quiet mdrun -s water.tpr -deffnm run -ntomp 1 -npme 0 -pin off -reprod)
inputs() {
    printf '#include "oplsaa.ff/%s"\n' forcefield.itp spc.itp >water.top
    printf '[ system ]\nwater\n[ molecules ]\nSOL 1728\n' >>water.top
    cat >water.mdp <<'INPUT'
integrator = md
nsteps = 600
dt = 0.002
cutoff-scheme = Verlet
coulombtype = PME
rcoulomb = 0.9
rvdw = 0.9
tcoupl = v-rescale
tc-grps = System
tau-t = 0.1
ref-t = 300
gen-vel = yes
gen-seed = 1
ld-seed = 1
nstlog = 100
INPUT
    logged "$client-box" "$root/usr/bin/gmx" genconf -f "$GMXLIB/spc216.gro" -o box.gro -nbox 2 2 2
    logged "$client-input" "$root/usr/bin/gmx" grompp -f water.mdp -c box.gro -p water.top -o water.tpr
}
answer() {
    awk '/^ +Energies/ { on = 1 } on; NF == 0 { on = 0 }' run.log
    cat run.gro
}

same_as_openmpi
killed_in_each_mode
