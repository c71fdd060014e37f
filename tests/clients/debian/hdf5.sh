#!/usr/bin/env bash
# HDF5's own tests of parallel files, from its sources, on Debian's library: metadata by all ranks,
# collective and independent chunks, filters, shapes of selections, and files that stay open.
source "$(dirname "$0")/debian.sh"
unpacked libhdf5-openmpi-103-1 libopenmpi-dev
debian_binaries hdf5-headers libhdf5-openmpi-dev libaec-dev
debian_source hdf5

sources=$work/debian/hdf5-sources
programs=$work/debian/hdf5-programs
# built: the programs, with what they share; they use the library's inner functions, too.
built() {
    local name parts
    compile=(gcc -O1 -w -I. -I"$work/debian/hdf5-headers/usr/include/hdf5/openmpi"
        -I"$work/debian/hdf5-headers/usr/include" -I"$libraries/openmpi/include"
        -I"$sources/src" -I"$sources/test" -I"$sources/testpar")
    needs=(libshared.a -L"$libraries" -l:libhdf5_openmpi.so.103 -l:libmpi.so.40 -lm
        -Wl,--allow-shlib-undefined)
    echo 'static const char *config_srcdir = ".";' >H5srcdir_str.h
    parts=(t_{dset,file,file_image,mdset,ph5basic,coll_chunk,span_tree,chunk_alloc,filter_read}
        t_{prop,coll_md_read})
    for name in test/{h5test,testframe} testpar/testphdf5 "${parts[@]/#/testpar/}" \
        "${alone[@]/#/testpar/}"; do
        logged hdf5-compile "${compile[@]}" -c "$sources/$name.c"
    done
    ar rcs libshared.a h5test.o testframe.o
    logged hdf5-link gcc -o testphdf5 testphdf5.o "${parts[@]/%/.o}" "${needs[@]}"
    for name in "${alone[@]}"; do logged hdf5-link gcc -o "$name" "$name.o" "${needs[@]}"; done
}
# Left out: t_cache and t_bigio, which take minutes and gigabytes, and t_cache_image, whose child
# processes fail on Open MPI, too.
alone=(t_mpi t_shapesame t_filters_parallel t_pread t_init_term t_pshutdown t_prestart t_pflush1
    t_pflush2)
if [ ! -d "$programs" ]; then
    rm -rf "$sources" "$programs.new" && mkdir -p "$sources" "$programs.new"
    tar -xf "$work"/src/hdf5_*.orig.tar.* -C "$sources" --strip-components=1 \
        --wildcards '*/src/*.h' '*/test/*.[ch]' '*/testpar/*.[ch]'
    (cd "$programs.new" && built)
    mv "$programs.new" "$programs"
fi

inputs() { :; }
answer() {
    grep -E 'PASSED|FAILED|SKIPPED|no errors|errors? detected|^Testing|ended' "$run.out" | sort
}
# each MPI RANKS: t_prestart reads what t_pshutdown wrote, and t_pflush2 what t_pflush1 wrote, which
# leaves before MPI_Finalize.
each() {
    local name
    for name in testphdf5 "${alone[@]}"; do
        "on_$1" "$2" "$programs/$name" || echo "$name ended with $?"
    done
}
for ranks in 2 3; do
    at openmpi
    done_by each openmpi $ranks
    expected=$run.answer
    answer >"$expected"
    [ "$(grep -c ^Testing "$expected")" -gt 150 ] ||
        fail "too few tests on Open MPI: $(cat "$run.out")"
    ! grep FAILED "$expected" >&2 || fail "tests fail on Open MPI"
    at rejoin
    done_by each rejoin $ranks
    judge "$(grep -c ^Testing "$expected") tests on $ranks ranks"
done
