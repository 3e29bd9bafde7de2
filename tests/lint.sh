#!/usr/bin/env bash
# lint: what the compiler does not see. Prints "file:line: what" for each finding and exits 1 if
# there was one. Looks at the files that git knows (or, outside of git, at all); `lint.sh DIR` looks
# at another tree, which is how tests/cli/lint.t proves that each rule bites.
set -u
export LC_ALL=C
cd "${1:-$(dirname "$0")/..}" || exit 1

list() { # the project's files with these endings
    if [ -d .git ] || git rev-parse --is-inside-work-tree >/dev/null 2>&1 &&
        [ -n "$(git ls-files | head -1)" ]; then
        git ls-files -- "$@" | while IFS= read -r f; do [ -f "$f" ] && printf '%s\n' "$f"; done
    else
        local args=() p
        for p in "$@"; do args+=(-o -name "$p"); done
        find . -type f \( "${args[@]:1}" \) | sed 's|^\./||' | sort
    fi
}

bad=0
mapfile -t sources < <(list '*.c' '*.h')
mapfile -t scripts < <(list '*.sh' '*.t' '.ci/run')

# ---- formatting ----
format=$(command -v clang-format-14 || command -v clang-format)
if [ -z "$format" ]; then
    if [ -n "${CI:-}" ]; then
        echo "lint: clang-format is missing, and CI must have it" >&2
        bad=1
    else
        echo "lint: SKIP formatting: clang-format is not here" >&2
    fi
elif [ -z "${CI:-}" ] && ! "$format" --version | grep -q 'version 14\.'; then
    echo "lint: SKIP formatting: $("$format" --version | head -1) formats otherwise than 14" >&2
elif [ ${#sources[@]} -gt 0 ]; then
    "$format" --dry-run -Werror "${sources[@]}" 2>&1 | grep -E '^[^ ]+:[0-9]+:' | sed -E 's/:[0-9]+: error: /: /; s/ \[-W.*//'
    [ "${PIPESTATUS[0]}" = 0 ] || bad=1
fi

# ---- scripts ----
for f in "${scripts[@]}"; do
    case $(head -1 "$f") in
    *bash*) shell=bash ;;
    *) shell=sh ;;
    esac
    "$shell" -n "$f" 2>&1 | sed -E 's/^([^:]+): (line )?([0-9]+): /\1:\3: /'
    [ "${PIPESTATUS[0]}" = 0 ] || bad=1
done

# ---- tests that prove runs as programs: without the bit they are reported as failed
for f in "${scripts[@]}"; do
    case $f in
    tests/cli/*.t | tests/long/*.t)
        [ -x "$f" ] && continue
        echo "$f:1: is not executable; chmod +x it"
        bad=1
        ;;
    esac
done

# ---- sources, without their comments and strings ----
perl - "${sources[@]}" "${scripts[@]}" <<'PERL' || bad=1
use strict;
use warnings;

my %instead = (
    sprintf => 'snprintf or buf_printf', strcpy => 'a str', strcat => 'a buf',
    strtok => 'str_cut', atoi => 'str_i64', atof => 'str_f64', gets => 'stream_line',
    rand => 'rng', srand => 'rng',
);
# Registries, and the one file that knows which instruction sets a build has.
my %may_ifdef = map { $_ => 1 } qw(formats/build.c trainer/backends.c trainer/comms.c
    eval/models.c eval/servers.c trainer/cpu/machine.c);
my $found = 0;

sub finding { my ($file, $line, $what) = @_; print "$file:$line: $what\n"; $found++; }

# Comments and the insides of strings become blanks; line ends stay, so lines keep their numbers.
sub bare {
    my ($text) = @_;
    $text =~ s{(/\*.*?\*/|//[^\n]*)|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')}{
        my ($remark, $string) = ($1, $2);
        my $t = defined $remark ? $remark : $string;
        if (defined $remark) { $t =~ s/[^\n]/ /g; $t }
        else { my $q = substr $t, 0, 1; $q . (' ' x (length($t) - 2)) . $q }
    }gsex;
    return $text;
}

for my $file (@ARGV) {
    open my $fh, '<', $file or do { finding($file, 1, "cannot be read: $!"); next };
    my $text = do { local $/; <$fh> };
    $text = '' unless defined $text;
    my $is_c = $file =~ /\.[ch]$/;
    my $product = $file !~ m{^tests/};
    my $longest = $product ? 600 : 700; # lines; aim at 150-400
    my @raw = split /\n/, $text, -1;
    finding($file, scalar @raw, 'no line end at the end of the file') if $text ne '' && $text !~ /\n\z/;
    pop @raw if @raw && $raw[-1] eq '';
    finding($file, $longest + 1, @raw . " lines, at most $longest") if @raw > $longest;
    for my $i (0 .. $#raw) {
        finding($file, $i + 1, 'white space at the end of the line') if $raw[$i] =~ /[ \r\t]$/;
        finding($file, $i + 1, 'a tab') if $is_c && $raw[$i] =~ /\t/;
    }
    next unless $is_c;
    my @line = split /\n/, bare($text), -1;
    my ($in_macro, $guard) = (0, '');
    for my $i (0 .. $#line) {
        my $l = $line[$i];
        while ($l =~ /(?<![\w.>])(sprintf|strcpy|strcat|strtok|atoi|atof|gets|s?rand)\s*\(/g) {
            finding($file, $i + 1, "$1() is banned; use $instead{$1}");
        }
        finding($file, $i + 1, 'exit() outside of pipelines/main.c')
            if $product && $file ne 'pipelines/main.c' && $l =~ /(?<![\w.>])exit\s*\(/;
        my $starts = $l =~ /^\s*#\s*define\b/;
        finding($file, $i + 1, 'a macro hides a return or goto')
            if ($starts || $in_macro) && $l =~ /\b(return|goto)\b/;
        $in_macro = ($starts || $in_macro) && $raw[$i] =~ /\\$/;
        if ($product && $l =~ /^\s*#\s*(if|ifdef|ifndef|elif)\b\s*(\w*)/) {
            my ($kind, $name) = ($1, $2);
            my $next = $i < $#line ? $line[$i + 1] : '';
            my $is_guard = $kind eq 'ifndef' && !$guard && $next =~ /^\s*#\s*define\s+\Q$name\E\s*$/;
            $guard = $name if $is_guard;
            finding($file, $i + 1, "#$kind outside of a registry")
                unless $is_guard || $name eq '__cplusplus' || $may_ifdef{$file};
        }
    }
    finding($file, 1, 'a header without a guard') if $file =~ /\.h$/ && !$guard && $product;
}
exit($found ? 1 : 0);
PERL
[ "$bad" = 0 ] && echo "lint: ${#sources[@]} sources and ${#scripts[@]} scripts are clean"
exit "$bad"
