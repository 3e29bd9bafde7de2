#!/usr/bin/env perl
# An independent reader of what assay writes: the safetensors layout, GPT-2's tensor names and
# shapes, and the keys of config.json that transformers reads. Prints a line a tensor.
use strict;
use warnings;
use JSON::PP;

my $dir = shift or die "usage: read_checkpoint.pl DIR\n";
$dir .= "/latest" if !-e "$dir/config.json" && -e "$dir/latest/config.json";

sub slurp {
    open my $f, "<:raw", $_[0] or die "$_[0]: $!\n";
    local $/;
    return scalar <$f>;
}
my $c = decode_json(slurp("$dir/config.json"));
for my $key (qw(model_type architectures n_layer n_head n_embd n_positions vocab_size
    activation_function layer_norm_epsilon tie_word_embeddings resid_pdrop embd_pdrop attn_pdrop))
{
    die "config.json lacks $key\n" unless defined $c->{$key};
}
die "model_type $c->{model_type}\n" unless $c->{model_type} eq "gpt2";

my $file = slurp("$dir/model.safetensors");
my $n = unpack "Q<", $file;
my $header = decode_json(substr $file, 8, $n);
my $meta = delete $header->{__metadata__};
die "no metadata format\n" unless $meta && $meta->{format} eq "pt";

my ($w, $v, $t) = @$c{qw(n_embd vocab_size n_positions)};
my $f = $c->{n_inner} || 4 * $w;
my %want = ("transformer.wte.weight" => [$v, $w], "transformer.wpe.weight" => [$t, $w],
    "transformer.ln_f.weight" => [$w], "transformer.ln_f.bias" => [$w]);
$want{"lm_head.weight"} = [$v, $w] unless $c->{tie_word_embeddings};
for my $l (0 .. $c->{n_layer} - 1) {
    my %block = ("ln_1.weight" => [$w], "ln_1.bias" => [$w], "ln_2.weight" => [$w],
        "ln_2.bias" => [$w], "attn.c_attn.weight" => [$w, 3 * $w], "attn.c_attn.bias" => [3 * $w],
        "attn.c_proj.weight" => [$w, $w], "attn.c_proj.bias" => [$w],
        "mlp.c_fc.weight" => [$w, $f], "mlp.c_fc.bias" => [$f],
        "mlp.c_proj.weight" => [$f, $w], "mlp.c_proj.bias" => [$w]);
    $want{"transformer.h.$l.$_"} = $block{$_} for keys %block;
}
my ($end, $count) = (0, 0);
for my $name (sort { $header->{$a}{data_offsets}[0] <=> $header->{$b}{data_offsets}[0] } keys %$header) {
    my $x = $header->{$name};
    my $shape = delete $want{$name} or die "unexpected tensor $name\n";
    die "$name is [@{$x->{shape}}], want [@$shape]\n" unless "@{$x->{shape}}" eq "@$shape";
    die "$name is $x->{dtype}\n" unless $x->{dtype} eq "F32";
    my ($from, $to) = @{$x->{data_offsets}};
    my $values = 1;
    $values *= $_ for @$shape;
    die "$name starts at $from, want $end\n" unless $from == $end;
    die "$name has ", $to - $from, " bytes for $values values\n" unless $to - $from == 4 * $values;
    my @v = unpack "f<*", substr $file, 8 + $n + $from, $to - $from;
    my ($zero, $bad) = (1, 0);
    for (@v) { $zero = 0 if $_ != 0; $bad++ if $_ != $_ || abs($_) > 1e30; }
    die "$name holds $bad values that are not finite\n" if $bad;
    print "$name ", join("x", @$shape), $zero ? " zero" : "", "\n";
    $end = $to;
    $count++;
}
die "missing: ", join(" ", sort keys %want), "\n" if %want;
die "the file has ", length($file) - 8 - $n, " bytes of data, want $end\n"
    unless length($file) == 8 + $n + $end;
print "$count tensors, $end bytes\n";
