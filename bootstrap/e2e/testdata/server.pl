# server.pl PORT: an HTTP server that answers each request as a chat completion, for roots
# that have Perl. It reads and writes as servers do: through the C library.
use strict;
use warnings;
use IO::Socket::INET;

my $port   = shift;
my $server = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $port, Listen => 8, ReuseAddr => 1)
	or die "listen on port $port: $!";
while (my $client = $server->accept) {
	my ($request, $body) = ('', 0);
	while (sysread($client, $request, 65536, length $request)) {
		my $end = index $request, "\r\n\r\n";
		next if $end < 0;
		$body = $1 if $request =~ /content-length: *(\d+)/i;
		last if length($request) >= $end + 4 + $body;
	}
	my $answer = '{"id":"chatcmpl-0123456789abcdef","object":"chat.completion","created":1,"model":"toy",'
		. '"choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],'
		. '"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}';
	syswrite $client, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: " . length($answer) . "\r\nconnection: close\r\n\r\n$answer";
	close $client;
}
