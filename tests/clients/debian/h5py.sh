#!/usr/bin/env bash
# h5py on parallel HDF5, which writes one file by MPI-IO. The file is the same byte for byte, and
# HDF5's own tools find no difference.
source "$(dirname "$0")/debian.sh"
unpacked python3-h5py-mpi python3-mpi4py hdf5-tools

export PYTHONPATH=$root/usr/lib/python3/dist-packages
ranks=3
options=(--abi openmpi)
job=(/usr/bin/python3 parallel.py)
inputs() {
    cat >parallel.py <<'PROGRAM'
from mpi4py import MPI
import numpy as np
import h5py

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
assert h5py.get_config().mpi
with h5py.File("rows.h5", "w", driver="mpio", comm=world) as file:
    rows = file.create_dataset("rows", (4 * size, 100), dtype="f8", chunks=(2, 50))
    rows[4 * rank:4 * rank + 4] = np.arange(400.0).reshape(4, 100) * (rank + 1)
    with rows.collective:
        rows[rank::size] = np.sin(np.arange(400.0).reshape(4, 100)) + rank
    flat = file.create_dataset("flat", (1000 * size,), dtype="i4")
    flat[rank::size] = np.arange(1000) * size + rank
    file.create_group("about").attrs["ranks"] = size
with h5py.File("rows.h5", "r", driver="mpio", comm=world) as file:
    total = world.allreduce(float(file["rows"][rank::size].sum()), op=MPI.SUM)
    assert (file["flat"][:] == np.arange(1000 * size)).all()
    if rank == 0:
        print("read again:", repr(total), file["about"].attrs["ranks"])
PROGRAM
}
answer() { cat "$run.out" && sha256sum rows.h5 && "$root/usr/bin/h5dump" -H rows.h5; }

same_as_openmpi
"$root/usr/bin/h5diff" "${expected%.answer}/rows.h5" rows.h5 || fail "HDF5's tools find a difference"
say "h5diff finds no difference"
