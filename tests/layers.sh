#!/usr/bin/env bash
# layers: who may include whom (DESIGN 2), as TAP.
#   base <- formats <- {datasets tokenizer trainer scoring} <- eval <- pipelines
# Rooms side by side never see each other; eval sees the public headers of tokenizer and trainer;
# inside of trainer, backends and comms see only the contract; each library has one door.
# The second half plants one violation of each kind in a copy and wants to see it found.
set -u
export LC_ALL=C
cd "$(dirname "$0")/.." || exit 1
: "${CC:=gcc}"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

n=0
bad=0
result() { # status name
    n=$((n + 1))
    if [ "$1" = 0 ]; then
        echo "ok $n - $2"
    else
        echo "not ok $n - $2"
        bad=1
    fi
}

sources() { # of the tree we stand in
    if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$PWD" ] && [ -n "$(git ls-files | head -1)" ]; then
        git ls-files -- '*.c' '*.h' '*.cu' '*.cuh'
    else
        find . -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) | sed 's|^\./||' | sort
    fi | while IFS= read -r f; do [ -f "$f" ] && printf '%s\n' "$f"; done
}

# Prints "rule file:line: what" for each violation in the tree we stand in.
violations() {
    sources | perl -e '
use strict;
use warnings;
my %sees = (
    base      => [qw(base)],
    formats   => [qw(base formats)],
    datasets  => [qw(base formats datasets)],
    tokenizer => [qw(base formats tokenizer)],
    trainer   => [qw(base formats trainer)],
    scoring   => [qw(base formats scoring)],
    eval      => [qw(base formats tokenizer trainer eval)],
    pipelines => [qw(base formats datasets tokenizer trainer scoring eval pipelines)],
);
# What a backend or a comm may see of trainer beside its own folder.
my %contract = map { $_ => 1 } qw(trainer/backend.h trainer/comm.h trainer/rendezvous.h
    trainer/mpi_object.h trainer/tensor.h);
my %registry = map { $_ => 1 } qw(trainer/backends.c trainer/comms.c);
# Library, the only file (or folder) that may include it.
my @doors = (
    [qr{^curl/},                 qr{^base/http_transfer\.h$}],
    [qr{^pcre2},                 qr{^base/regex\.c$}],
    [qr{^msgpack},               qr{^formats/record\.c$}],
    [qr{^jansson},               qr{^base/json\.c$}],
    [qr{^ini\.h$},               qr{^base/config\.c$}],
    [qr{^openssl/},              qr{^base/hash\.c$}],
    [qr{^zlib\.h$},              qr{^base/stream_gz\.c$}],
    [qr{^zstd},                  qr{^base/stream_zst\.c$}],
    [qr{^(oneapi/)?dnnl},        qr{^trainer/cpu/\w+\.c$}],
    [qr{^omp\.h$},               qr{^trainer/cpu/}],
    [qr{^microhttpd\.h$},        qr{^eval/serve\w*\.c$}],
    [qr{^mpi\.h$},               qr{^trainer/comm_mpi\.c$}],
    [qr{^(cuda|cublas|nccl|nvml|nvtx|mma)}, qr{^trainer/(cuda/|comm_nccl\.c$)}],
);
my $folder = qr{^trainer/(cpu|cuda)/};
# The C library, POSIX and Linux; anything else is a library that needs a door above.
my %system = map { ("$_.h" => 1) } qw(assert complex ctype errno fenv float inttypes iso646 limits
    locale math setjmp signal stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib
    stdnoreturn string tgmath threads time uchar wchar wctype dirent dlfcn fcntl fnmatch fts glob
    grp netdb poll pthread pwd sched semaphore spawn strings termios unistd ucontext malloc link elf
    execinfo cpuid immintrin arm_neon getopt libgen pty utime ifaddrs);
my (%users, %read);
while (my $file = <STDIN>) {
    chomp $file;
    my ($room) = $file =~ m{^(\w+)/};
    next unless defined $room && $sees{$room};
    my %may = map { $_ => 1 } @{$sees{$room}};
    my ($island) = $file =~ $folder;
    my $comm = $file =~ m{^trainer/comm_\w+\.[ch]$};
    open my $fh, "<", $file or next;
    while (my $line = <$fh>) {
        my $at = "$file:$.";
        if ($line =~ /^\s*#\s*include\s*"([^"]*)"/) {
            my $inc = $1;
            my ($to) = $inc =~ m{^(\w+)/};
            if (!defined $to || $inc =~ m{(^|/)\.} || !-f $inc) {
                print "form $at: \"$inc\" is not a \"room/file.h\" of this tree\n";
                next;
            }
            print "rooms $at: $room must not see $inc\n" unless $may{$to};
            print "rooms $at: $inc is not public to $room\n"
                if $room ne "trainer" && $inc =~ $folder && $room ne "pipelines";
            next unless $to eq "trainer" || $to eq "formats";
            if (defined $island) {
                print "contract $at: a backend sees base and the contract, not $inc\n"
                    unless $contract{$inc} || $inc =~ m{^trainer/\Q$island\E/};
            } elsif ($comm) {
                print "contract $at: a comm sees base and the contract, not $inc\n"
                    unless $contract{$inc} || $inc =~ m{^trainer/comm_\w+\.h$};
            } elsif ($room eq "trainer" && ($inc =~ $folder || $inc =~ m{^trainer/comm_}) && !$registry{$file}) {
                print "contract $at: only the registries see $inc\n";
            }
        } elsif ($line =~ /^\s*#\s*include\s*<([^>]*)>/) {
            my $inc = $1;
            my ($door) = grep { $inc =~ $_->[0] } @doors;
            if ($door) {
                print "door $at: <$inc> has another door\n" unless $file =~ $door->[1];
                $users{"$door->[0]"}{$file} = $at if $file !~ m{^trainer/cuda/} && $inc ne "omp.h";
            } elsif (!$system{$inc} && $inc !~ m{^(sys|net|netinet|arpa|linux|asm)/}) {
                print "door $at: <$inc> is a library without a door in tests/layers.sh\n";
            }
        }
    }
}
for my $lib (sort keys %users) {
    my @at = sort values %{$users{$lib}};
    print "door $_: one of ", scalar @at, " includers of one library\n" for @at > 1 ? @at : ();
}
'
}

# Every header stands alone. Headers of a backend that is not built here may need its toolkit.
headers() {
    local h
    sources | grep '\.h$' | grep -v '^trainer/cuda/' | while IFS= read -r h; do
        case $h in
        trainer/cpu/vec/*) continue ;; # compiled only with -DISA, once a level
        esac
        printf '#include "%s"\n#include "%s"\n' "$h" "$h" |
            "$CC" ${CPPFLAGS:--I. -D_GNU_SOURCE} -std=c17 -Wall -Wextra -Werror -Wno-unused-function \
                -Wno-missing-field-initializers -fsyntax-only -x c - >"$tmp/why" 2>&1 ||
            { echo "header $h: does not compile alone, twice"; grep -m2 'error' "$tmp/why"; }
    done
}

check() { # rule name
    local found
    found=$(grep "^$1 " "$tmp/found" | sed "s/^$1 //")
    [ -z "$found" ]
    result $? "$2"
    [ -z "$found" ] || printf '%s\n' "$found" | sed 's/^/# /'
}

violations >"$tmp/found"
headers >>"$tmp/found"
check rooms "rooms see only what stands below them"
check form "includes are written \"room/file.h\" and exist"
check contract "backends and comms see only the contract, and only the registries see them"
check door "each library has one includer"
check header "every header compiles alone, and twice"

# ---- would it be seen? ----
mkdir "$tmp/tree"
sources | tar cf - -T - | tar xf - -C "$tmp/tree"
plant() { # rule, file, line
    mkdir -p "$tmp/tree/$(dirname "$2")"
    [ -f "$tmp/tree/$2" ] && cp "$tmp/tree/$2" "$tmp/keep"
    printf '%s\n' "$3" >>"$tmp/tree/$2"
    (cd "$tmp/tree" && if [ "$1" = header ]; then headers; else violations; fi) >"$tmp/planted"
    grep -q "^$1 $2" "$tmp/planted"
    result $? "planted in $2 it is found: $3"
    if [ -f "$tmp/keep" ]; then mv "$tmp/keep" "$tmp/tree/$2"; else rm "$tmp/tree/$2"; fi
}
plant rooms base/planted.c '#include "formats/record.h"'
plant rooms formats/planted.h '#include "trainer/backend.h"'
plant rooms tokenizer/planted.c '#include "datasets/grammar.h"'
plant rooms scoring/planted.c '#include "eval/model.h"'
plant rooms eval/planted.c '#include "scoring/scorer.h"'
plant rooms trainer/planted.c '#include "pipelines/compare.h"'
plant form base/planted.c '#include "str.h"'
plant form base/planted.c '#include "base/nothing.h"'
plant form eval/planted.c '#include "../base/str.h"'
plant contract trainer/cpu/planted.c '#include "trainer/train.h"'
plant contract trainer/cpu/planted.c '#include "formats/run.h"'
plant contract trainer/comm_planted.c '#include "trainer/loader.h"'
plant contract trainer/planted.c '#include "trainer/cpu/cpu.h"'
plant rooms eval/planted.c '#include "trainer/cpu/cpu.h"'
plant door base/planted.c '#include <curl/curl.h>'
plant door formats/planted.c '  #  include <msgpack.h>'
plant door trainer/cpu/planted.c '#include <dnnl.h>'
plant door trainer/planted.c '#include <omp.h>'
plant door eval/planted.c '#include <json-c/json.h>'
plant header base/planted.h 'struct planted { struct str name; };'

echo "1..$n"
exit "$bad"
