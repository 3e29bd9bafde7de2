#!/usr/bin/env perl
# judge_sim: a judge that sees how good an answer is, for tests: answers hold "quality NN".
#
#   perl tests/judge_sim.pl RULES LOG      prints its port; ends when its stdin closes
#
# It also is the candidates: model NAME:Q answers "Q: question K" with quality Q + 0..2, by K and NAME.
#
# RULES is read anew for each request: words KEY=VALUE. drift: added to all scores; stretch: scores
# are 50 + (x - 50) * stretch; own:NAME=N: added to answers that hold NAME; first: share (0 or 1) of
# pairs for which the first answer wins whatever it says; omit=1: a joint verdict lacks its last
# answer the first time; noise=N: N points up or down by the request's seed. An empty answer gets 0,
# an answer without a quality 97. LOG gets a line a request: labels and answers in order.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;

my ($rules, $log) = @ARGV;
my $server = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 128, ReuseAddr => 1) or die;
$| = 1;
print $server->sockport, "\n";
open my $out, '>>', $log or die;
$out->autoflush(1);
my $select = IO::Select->new($server, \*STDIN);
my %seen;

sub rules {
    my %r = (drift => 0, stretch => 1, noise => 0, first => 0, omit => 0);
    open my $fh, '<', $rules or return %r;
    my $text = do { local $/; <$fh> } // '';
    $r{$1} = $2 while $text =~ /(\S+)=(\S+)/g;
    return %r;
}
sub score {
    my ($text, $r, $seed) = @_;
    $text =~ s/^\s+|\s+$//g;
    my $q = $text eq '' ? 0 : $text =~ /quality (\d+)/ ? $1 : 97;
    $q = 50 + ($q - 50) * $r->{stretch} + $r->{drift} + ($seed % 2 ? 1 : -1) * $r->{noise};
    for my $k (keys %$r) { $q += $r->{$k} if $k =~ /^own:(.*)/ && index($text, $1) >= 0 }
    return $q < 0 ? 0 : $q > 100 ? 100 : int($q + 0.5);
}
sub reply {
    my ($body) = @_;
    my %r = rules();
    my ($prompt) = $body =~ /"content":"((?:[^"\\]|\\.)*)"/;
    my ($seed) = $body =~ /"seed":(\d+)/;
    my $json = $body =~ /json_schema/;
    $prompt =~ s/\\n/\n/g;
    my (@label, %text);
    while ($prompt =~ /### Answer ([A-Z])\n(.*?)\n\n(?=###)/gs) { push @label, $1; $text{$1} = $2 }
    if ($prompt =~ /^Q: question (\d+)/) { # a candidate: model NAME:QUALITY answers item K
        my $k = $1;
        my ($name, $quality) = $body =~ /"model":"([^":]+):(\d+)"/;
        return "$name says it with quality " . ($quality + ($k + ord substr $name, -1) % 3);
    }
    print $out join(' | ', map { "$_ $text{$_}" } @label), "\n" if @label;
    if ($prompt =~ /### Verdict/) {
        my ($x, $y) = map { score($text{$_}, \%r, $seed // 0) } 'A', 'B';
        my $v = $r{first} ? 'A' : $x > $y ? 'A' : $x < $y ? 'B' : 'tie';
        return $json ? "{\\\"verdict\\\": \\\"$v\\\"}" : "Verdict: $v";
    }
    if (@label) {
        pop @label if $r{omit} && !$seen{$prompt}++;
        return '{' . join(', ', map { "\\\"$_\\\": " . score($text{$_}, \%r, $seed // 0) } @label) . '}';
    }
    my ($answer) = $prompt =~ /### Model's answer\n(.*?)\n\n###/s;
    print $out "$answer\n";
    my $s = score($answer, \%r, $seed // 0);
    return "Fine.\\nScore: " . int($s / 25 + 1) if $prompt =~ /### Rubric/;
    return $json ? "{\\\"score\\\": $s}" : $s;
}
while (1) {
    for my $fh ($select->can_read(60)) {
        exit 0 if $fh == \*STDIN;
        my $c = $server->accept or next;
        my $in = '';
        while ($in !~ /\r\n\r\n/) { sysread($c, $in, 65536, length $in) or last }
        my ($n) = $in =~ /Content-Length: (\d+)/i;
        my $head = index($in, "\r\n\r\n") + 4;
        while (length($in) - $head < ($n // 0)) { sysread($c, $in, 65536, length $in) or last }
        my $text = reply(substr $in, $head);
        my $body = '{"model":"sim-1","choices":[{"index":0,"message":{"content":"' . $text . '"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":10}}';
        print $c "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: " . length($body) . "\r\n\r\n$body";
        close $c;
    }
}
