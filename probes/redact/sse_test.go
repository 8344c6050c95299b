package redact

import (
	"strings"
	"testing"
)

func redactSSE(text string, cuts ...int) string {
	var s sseRedactor
	var j jsonRedactor
	s.reset(&j, responseRoot)
	p := []byte(text)
	at := 0
	for _, cut := range append(cuts, len(p)) {
		s.redact(p[at:cut])
		at = cut
	}
	return string(p)
}

func TestSSE(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"chat",
			"data: {\"id\":\"chatcmpl-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":null}]}\n\ndata: [DONE]\n\n",
			"data: {\"id\":\"chatcmpl-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"xx\"},\"finish_reason\":null}]}\n\ndata: [DONE]\n\n"},
		{"messages",
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n",
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"xx\"}}\n\n"},
		{"CR LF", "data: {\"text\":\"a\"}\r\n\r\ndata: {\"text\":\"b\"}\r\n\r\n", "data: {\"text\":\"x\"}\r\n\r\ndata: {\"text\":\"x\"}\r\n\r\n"},
		{"CR", "data: {\"text\":\"a\"}\r\rdata:{\"text\":\"b\"}\r\r", "data: {\"text\":\"x\"}\r\rdata:{\"text\":\"x\"}\r\r"},
		{"data of two lines", "data: {\"text\":\ndata: \"a\",\"created\":5}\n\n", "data: {\"text\":\ndata: \"x\",\"created\":5}\n\n"},
		{"string over two lines", "data: {\"text\":\"a\ndata: b\",\"created\":5}\n\n", "data: {\"text\":\"x\ndata: xxxxxxxxxxxxxxx\n\n"},
		{"unknown event", "event: secret\ndata: {}\n\n", "event: XXXXXX\ndata: {}\n\n"},
		{"event's beginning", "event: pin\n\n", "event: XXX\n\n"},
		{"comment", ": secret\n\n", ":xxxxxxx\n\n"},
		{"id and retry", "id: 71\nretry: 10\n\n", "id:xxx\nretry:xxx\n\n"},
		{"unknown field", "secret: 1\nsecret\ndat\n\n", "xxxxxxxxx\nxxxxxx\nXXX\n\n"},
		{"no JSON, then JSON", "data: oops\n\ndata: {\"created\":5}\n\n", "data: xxxx\n\ndata: {\"created\":5}\n\n"},
		{"not done", "data: [DONE\n\ndata: [DUNE]\n\ndata: [{\"created\":5}]\n\n", "data: [DONE\n\ndata: [Dxxxx\n\ndata: [{\"created\":5}]\n\n"},
		{"error in the stream",
			"data: {\"error\": {\"object\": \"error\", \"message\": \"m\", \"type\": \"BadRequestError\", \"param\": null, \"code\": 400}}\n\n",
			"data: {\"error\": {\"object\": \"error\", \"message\": \"x\", \"type\": \"BadRequestError\", \"param\": null, \"code\": 400}}\n\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := redactSSE(tt.in); got != tt.want {
				t.Fatalf("redact(%q) =\n%q; want\n%q", tt.in, got, tt.want)
			}
			for cut := range len(tt.in) + 1 {
				got := redactSSE(tt.in, cut)
				want := strings.ReplaceAll(tt.want, "xxxxxx", "XXXXXX") // a field split in two keeps its beginning
				if !sameButPrefixes(got, tt.want, tt.in) && !sameButPrefixes(got, want, tt.in) {
					t.Errorf("redact(%q) cut at %d = %q; want %q", tt.in, cut, got, tt.want)
				}
			}
		})
	}
}

func TestSSEFindsItsWayBack(t *testing.T) {
	var s sseRedactor
	var j jsonRedactor
	s.reset(&j, responseRoot)
	head := []byte("data: {\"text\":\"sec")
	tail := []byte("ret\",\"model\":\"kept?\"}\ndata: x\n\ndata: {\"created\":5}\n\n")
	s.redact(head)
	s.lose()
	s.redact(tail)
	want := strings.Repeat("x", 21) + "\nxxxxxxx\n\ndata: {\"created\":5}\n\n"
	if string(tail) != want {
		t.Errorf("redact behind missing bytes = %q; want %q", tail, want)
	}
}
