package http1

import "testing"

func TestBareChunk(t *testing.T) {
	for _, tt := range []struct {
		name, in   string
		data, rest string
		ok         bool
	}{
		{"one", "3\r\nabc\r\n", "abc", "", true},
		{"with another behind", "3\r\nabc\r\n1\r\nx\r\n", "abc", "1\r\nx\r\n", true},
		{"size in capitals and with zeros", "00A\r\n0123456789\r\n", "0123456789", "", true},
		{"line end in the data", "2\r\n\r\n\r\n", "\r\n", "", true},
		{"last chunk", "0\r\n\r\n", "", "", false},
		{"extension", "3;a=b\r\nabc\r\n", "", "", false},
		{"blank behind the size", "3 \r\nabc\r\n", "", "", false},
		{"bare LF behind the size", "3\nabc\r\n", "", "", false},
		{"bare LF behind the data", "3\r\nabc\n\n", "", "", false},
		{"no size", "\r\nabc\r\n", "", "", false},
		{"no size but text", "xyz\r\n", "", "", false},
		{"data has not all come", "4\r\nabc", "", "", false},
		{"line end has not all come", "3\r\nabc\r", "", "", false},
		{"size only", "3\r\n", "", "", false},
		{"size has not all come", "3", "", "", false},
		{"size of more digits than usual", "0000003\r\nabc\r\n", "", "", false},
		{"size beyond all", "ffffff\r\nabc\r\n", "", "", false},
		{"nothing", "", "", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data, rest, ok := bareChunk([]byte(tt.in))
			if ok != tt.ok || ok && (string(data) != tt.data || string(rest) != tt.rest) {
				t.Errorf("bareChunk(%q) = %q, %q, %v; want %q, %q, %v", tt.in, data, rest, ok, tt.data, tt.rest, tt.ok)
			}
		})
	}
}
