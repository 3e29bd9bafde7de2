#!/usr/bin/env bash
# bundle: puts a folder together that runs assay on another machine:
# bundle.sh BUILD FOLDER TARBALL WORDS [OBJECT...]
# WORDS: the emulator's primitives, or empty. OBJECT: the shared objects of this build; one that an earlier
# build left is not packed.
#
# The tool and the shared objects stripped, the libraries they name beside them (lib/), run files,
# tasks, hardware files and the checks for a machine with GPUs. From the machine come glibc (2.35 or
# later), the C++ and gcc runtimes, MPI, CUDA and NCCL: symbols of a later glibc are an error here.
set -eu
export LC_ALL=C
build=$1 dir=$2 tarball=$3 words=${4:-}
shift 4
objects=("$@")
newest=2.35
bin=$build/bundle/bin
rm -rf "$dir"
mkdir -p "$dir/lib" "$dir/check"
cp "$bin/assay" "$dir/"
[ ${#objects[@]} = 0 ] || cp "${objects[@]}" "$dir/"
cuda=$(ls "$dir/libassay_cuda.so" 2>/dev/null || true)
for t in "$bin"/check/*; do
    [ -f "$t" ] && { [ -n "$cuda" ] || [ "${t##*/}" != primitives ]; } && cp "$t" "$dir/check/" || true
done
[ -z "$words" ] || cp "$words" "$dir/check/"
# Symbols that objects opened at run time need stay: they are in the dynamic table.
strip --strip-unneeded "$dir/assay" "$dir"/*.so "$dir"/check/test_* 2>/dev/null || true

from_the_machine='^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|anl|gcc_s|stdc\+\+|mpi|open-(rte|pal)|cuda|cudart|cublas.*|nccl|nvidia-ml))\.so'
ldd "$dir/assay" "$dir"/check/test_* 2>/dev/null | awk '$2 == "=>" {print $1, $3}' | sort -u |
    while read -r name path; do
        [[ $name =~ $from_the_machine ]] && continue
        [ -f "$path" ] || { echo "bundle: $name is not found on this machine" >&2; exit 1; }
        cp -L "$path" "$dir/lib/$name"
    done

for f in "$dir/assay" "$dir"/*.so "$dir"/lib/* "$dir"/check/*; do
    [ -f "$f" ] || continue
    later=$(objdump -T "$f" 2>/dev/null | grep -o 'GLIBC_2\.[0-9]*' | sort -u |
        awk -F. -v most="${newest#*.}" '$2 > most' | tr '\n' ' ')
    [ -z "$later" ] || { echo "bundle: $f wants $later, a bundle may want glibc $newest at most" >&2; exit 1; }
done

cp pipelines/bundle.mk "$dir/Makefile"
cp LICENSE "$dir/"
{
    echo "> This is a bundle: built already, so there is no \`make test\` and nothing to install; \`make help\` lists what there is. The machine must"
    echo "> have make, bash, awk, flock, a mounted /proc, glibc $newest or later and its C++ runtime; for GPUs see docs/cuda.md, \"A rented box\"."
    echo
    cat README.md
} >"$dir/README.md"
mkdir -p "$dir/pipelines" "$dir/tests/gpu" "$dir/docs"
cp -r pipelines/run.mk pipelines/*.sh pipelines/*.py pipelines/runs pipelines/hardware pipelines/tasks pipelines/prices \
    pipelines/sweeps pipelines/reference "$dir/pipelines/"
cp tests/gpu/*.sh tests/gpu/*.py "$dir/tests/gpu/"
cp -r docs/*.md docs/ci "$dir/docs/"
git rev-parse HEAD >"$dir/COMMIT" 2>/dev/null || echo unknown >"$dir/COMMIT"
tar -C "$(dirname "$dir")" --sort=name --owner=0 --group=0 --mtime=@0 -cf - "$(basename "$dir")" | gzip -n >"$tarball.new"
mv "$tarball.new" "$tarball"
echo "bundle: $tarball, $(du -m "$tarball" | cut -f1) MiB: unpack it anywhere and run ./assay doctor, make gpu-smoke" >&2
[ -n "$cuda" ] || echo "bundle: without libassay_cuda.so, so it runs on CPUs only: this build has no CUDA (make config says why)" >&2
