# chain.sh: sourced behind tap.sh by bash tests that train. Shards of a chain whose loss is soon low, and
# what two trained folders have in common.
#
# chain_shards FOLDER TRAIN VAL [SEED]   shards of llm.c's layout: ids below 61, two successors each
# same A B       equal weights, moments and losses
# near A B       every loss within 1e-5 of the other's, relative, every norm within 1e-4; says how near
# wait_for PATH PROCESS                  until PATH is there or the process ended
chain_shards() {
    perl -e '
        sub shard { my ($name, $n, $seed) = @_;
            open my $f, ">:raw", $name or die; my ($x, @t) = (0);
            for (1 .. $n) { $seed = ($seed * 1103515245 + 12345) % 2147483648;
                $x = ($x * 5 + 1 + 7 * (($seed >> 16) & 1)) % 61; push @t, $x; }
            print $f pack("V256", 20240520, 1, $n, (0) x 253), pack("v*", @t); }
        my ($dir, $train, $val, $seed) = @ARGV; mkdir $dir;
        shard("$dir/c_train_000000.bin", $train, $seed || 1); shard("$dir/c_val_000000.bin", $val, 2);' "$@"
}
same() {
    local f
    for f in latest/model latest/optimizer; do
        cmp -s "$1/$f.safetensors" "$2/$f.safetensors" || return 1
    done
    diff <(cut -d, -f1-5 "$1/metrics.jsonl") <(cut -d, -f1-5 "$2/metrics.jsonl") >/dev/null
}
near() {
    perl -MJSON::PP -e '
        my @r = map { open my $f, "<", "$_/metrics.jsonl" or die; [map { decode_json($_) } <$f>] } @ARGV;
        die "steps\n" if @{$r[0]} != @{$r[1]} || @{$r[0]} < 20;
        for my $i (0 .. $#{$r[0]}) { for my $k (qw(loss norm val_loss)) {
            my ($x, $y) = map { $_->[$i]{$k} } @r; next if !defined $x && !defined $y;
            my $d = abs($x - $y) / (abs($x) + 1e-9); my $w = $k eq "norm" ? \$norm : \$loss;
            $$w = $d if $d > $$w; } }
        printf "# %s and %s: largest relative difference of a loss %.1e, of a norm %.1e\n", @ARGV, $loss, $norm;
        exit($loss > 1e-5 || $norm > 1e-4);' "$1" "$2"
}
wait_for() {
    while [ ! -e "$1" ] && kill -0 "$2" 2>/dev/null; do sleep 0.02; done
}
