#!/usr/bin/env perl
# http_ask: one HTTP request, for the shell tests.
#   http_ask.pl URL [METHOD] [--header "Name: value"]... [--body TEXT | --body-bytes N] [--get PATH]...
#       prints the status, then the body; with --get the values at these paths of the JSON body
#       ("choices.0.text"), a line each, instead. A stream of events is joined: --get says "text",
#       "delta" (all pieces put together), "events" (how many) or "last" (the finish reason).
#   http_ask.pl --raw HOST:PORT   sends stdin as it is, prints the status line's number or "closed"
use strict;
use warnings;
use HTTP::Tiny;
use IO::Socket::INET;
use Encode;
use JSON::PP;

my $json = JSON::PP->new->utf8->canonical->allow_nonref;
binmode STDOUT;

if (@ARGV && $ARGV[0] eq '--raw') {
    my $s = IO::Socket::INET->new(PeerAddr => $ARGV[1], Timeout => 5) or do { print "refused\n"; exit };
    local $/;
    local $SIG{PIPE} = 'IGNORE';
    print $s scalar <STDIN>;
    $s->flush;
    shutdown($s, 1) if grep { $_ eq '--end' } @ARGV;
    local $SIG{ALRM} = sub { print "silent\n"; exit };
    alarm 10;
    my $got = '';
    sysread($s, $got, 4096);
    print $got =~ m{^HTTP/1\.\d (\d+)} ? "$1\n" : "closed\n";
    exit;
}

my ($url, $method, $body, @get, %header) = (shift @ARGV, 'GET');
$method = shift @ARGV if @ARGV && $ARGV[0] !~ /^--/;
while (my $o = shift @ARGV) {
    my $v = shift @ARGV;
    if ($o eq '--header') { my ($n, $t) = split /:\s*/, $v, 2; $header{$n} = $t }
    elsif ($o eq '--body') { $body = $v }
    elsif ($o eq '--body-bytes') { $body = '{"prompt":"' . 'x' x $v . '"}' }
    elsif ($o eq '--get') { push @get, $v }
    else { die "http_ask: $o?\n" }
}
$header{'Content-Type'} //= 'application/json' if defined $body;
my %o = (headers => \%header);
$o{content} = $body if defined $body;
my $r = HTTP::Tiny->new(timeout => 60)->request($method, $url, \%o);
if (!@get) {
    print "$r->{status}\n$r->{content}\n";
    exit;
}
my %joined = (events => 0, text => '', delta => '', last => '', done => 0, id => '');
if (($r->{headers}{'content-type'} // '') =~ m{text/event-stream}) {
    for (split /\n\n/, $r->{content}) {
        s/^data: // or next;
        if ($_ eq '[DONE]') { $joined{done} = 1; next }
        my $e = $json->decode($_);
        $joined{events}++;
        $joined{error} = $e->{error}{message} if $e->{error};
        for my $c (@{$e->{choices} // []}) {
            $joined{text} .= $c->{text} // '';
            $joined{delta} .= $c->{delta}{content} // '';
            $joined{last} = $c->{finish_reason} if defined $c->{finish_reason};
            $joined{tokens} .= join '|', @{$c->{logprobs}{tokens}}, '' if $c->{logprobs} && $c->{logprobs}{tokens};
        }
        $joined{usage} = $e->{usage} if $e->{usage};
    }
} else {
    my $v = eval { $json->decode($r->{content}) };
    %joined = ref $v eq 'HASH' ? %$v : (body => $v);
}
$joined{status} //= $r->{status} if !exists $joined{status};
for my $path (@get) {
    my $v = \%joined;
    for my $k (split /\./, $path) {
        $v = ref $v eq 'ARRAY' ? $v->[$k] : ref $v eq 'HASH' ? $v->{$k} : undef;
    }
    print ref $v ? $json->encode($v) : defined $v ? (utf8::is_utf8($v) ? Encode::encode_utf8($v) : $v) : 'null', "\n";
}
