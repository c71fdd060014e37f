#!/bin/sh
# @NAME@: the @LANGUAGE@ compiler with what MPI programs need. Part of Rejoin.
# Finds its prefix from where it lies, so that the tree can be moved.
set -u

self=$0
case $self in
*/*) ;;
*) self=$(command -v -- "$self") ;;
esac
while [ -h "$self" ]; do
    target=$(readlink -- "$self")
    case $target in
    /*) self=$target ;;
    *) self=$(dirname -- "$self")/$target ;;
    esac
done
prefix=$(CDPATH='' cd -- "$(dirname -- "$self")/.." && pwd -P) || exit 1

# The compiler: our variable (REJOIN_@USUAL@), then those of other MPIs, then the usual one
# unless it names a wrapper.
usual=${@USUAL@:-}
case ${usual##*/} in
mpi*) usual= ;;
esac
compiler=${REJOIN_@USUAL@:-${@OWN@:-${MPICH_@USUAL@:-${OMPI_@USUAL@:-${usual:-@DEFAULT@}}}}}

incdir=$prefix/include
libdir=$prefix/lib
flags() {
    @MODULES@
    compile="-I$incdir@COMPILE@"
    link="-L$libdir -Wl,-rpath,$libdir -Wl,--enable-new-dtags@OBJECT@ @LIBRARIES@"
}

linking=yes
input=no
show=no
static=no
skip=no
first=yes
for argument in "$@"; do
    if [ $first = yes ]; then
        set --
        first=no
    fi
    if [ $skip = yes ]; then
        skip=no
        set -- "$@" "$argument"
        continue
    fi
    case $argument in
    -show | --show | -showme | --showme) show=yes; continue ;;
    -compile_info | -compile-info) show=compile-info; continue ;;
    -link_info | -link-info) show=link-info; continue ;;
    -showme:compile | --showme:compile) flags; echo "$compile"; exit 0 ;;
    -showme:link | --showme:link) flags; echo "$link"; exit 0 ;;
    -showme:command | --showme:command) echo "$compiler"; exit 0 ;;
    -showme:incdirs | --showme:incdirs) echo "$incdir"; exit 0 ;;
    -showme:libdirs | --showme:libdirs) echo "$libdir"; exit 0 ;;
    -showme:libs | --showme:libs) echo "@NAMES@"; exit 0 ;;
    -showme:version | --showme:version) echo "@NAME@: Rejoin @VERSION@"; exit 0 ;;
    -cc=* | -cxx=*) compiler=${argument#*=}; continue ;;
    -static | --static) static=yes ;;
@REFUSED@    -c | -S | -E | -M | -MM | -fsyntax-only) linking=no ;;
    -o | -x | -MF | -MT | -MQ | -include | -isystem | -iquote | -idirafter | -Xlinker | -Xpreprocessor | -T | -u | -z@VALUED@) skip=yes ;;
    - | @*) input=yes ;;
    -*) ;;
    *) input=yes ;;
    esac
    set -- "$@" "$argument"
done

flags
case $show in
compile-info) echo "$compiler $* $compile -c"; exit 0 ;;
link-info) echo "$compiler $* $compile $link"; exit 0 ;;
yes)
    # Without arguments, everything: what build systems ask for.
    if [ $linking = yes ]; then
        echo "$compiler${*:+ $*} $compile $link"
    else
        echo "$compiler $* $compile"
    fi
    exit 0
    ;;
esac

if [ $static = yes ] && [ $linking = yes ] && [ $input = yes ]; then
    echo "@NAME@: -static: Rejoin is a shared library only; leave the option out (-static-libgcc works)" >&2
    exit 1
fi

# The compiler may be several words ("ccache gcc"); the prefix may hold blanks, so the flags are
# not.
if [ $linking = yes ] && [ $input = yes ]; then
    exec $compiler "$@" "-I$incdir"@QUOTED_COMPILE@ "-L$libdir" "-Wl,-rpath,$libdir" \
        -Wl,--enable-new-dtags@QUOTED_OBJECT@ @LIBRARIES@
fi
exec $compiler "$@" "-I$incdir"@QUOTED_COMPILE@
