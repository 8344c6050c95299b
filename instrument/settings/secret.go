package settings

// Types whose values must not be printed by accident: every verb of fmt, slog and
// encoding/json show a mask. Reveal and URL are the only ways to the value.

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Mask stands for any secret, whatever its length.
const Mask = "****"

// Secret is a value that is never shown. The zero value is "not set" and shows as "".
type Secret string

// Reveal gives the secret itself, for handing it to where it is needed.
func (s Secret) Reveal() string { return string(s) }

// String gives the mask, or "" when nothing is set.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Mask
}

// Format prints the mask for every verb and flag.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// MarshalText gives the mask.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue gives the mask.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Headers are the headers of an export, by name as given. Values are secret.
type Headers map[string]Secret

// String lists the names in order: "authorization=****,x-tenant=****".
func (h Headers) String() string {
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(h)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(name)
		b.WriteByte('=')
		b.WriteString(h[name].String())
	}
	return b.String()
}

// Reveal gives a copy with the values themselves.
func (h Headers) Reveal() map[string]string {
	m := make(map[string]string, len(h))
	for name, value := range h {
		m[name] = value.Reveal()
	}
	return m
}

// Endpoint is the address of a collector. Some vendors put a token into its path, and
// some people a password before its host, so it prints masked.
type Endpoint struct{ url *url.URL }

// URL gives the whole address; "" when nothing is set.
func (e Endpoint) URL() string {
	if e.url == nil {
		return ""
	}
	return e.url.String()
}

// IsZero reports whether no address is set.
func (e Endpoint) IsZero() bool { return e.url == nil }

// Scheme is the address's scheme in lower case: http, https, or a scheme of gRPC's
// own (unix, dns, passthrough).
func (e Endpoint) Scheme() string {
	if e.url == nil {
		return ""
	}
	return e.url.Scheme
}

// Host is the host with its port where one is given; "" for unix.
func (e Endpoint) Host() string {
	if e.url == nil {
		return ""
	}
	return e.url.Host
}

// String gives the address without what may be a credential: user and password,
// query, fragment, and each part of the path that does not look like a plain word.
func (e Endpoint) String() string {
	u := e.url
	if u == nil {
		return ""
	}
	if u.Scheme != schemeHTTP && u.Scheme != schemeHTTPS {
		// gRPC's own schemes name a socket or a host and carry no credential; what
		// is not a part of those names is left out.
		return (&url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path}).String()
	}
	var b strings.Builder
	b.WriteString(u.Scheme + "://")
	if u.User != nil {
		b.WriteString(Mask + "@")
	}
	b.WriteString(u.Host)
	if u.Path != "" {
		for i, part := range strings.Split(u.Path, "/") {
			if i > 0 {
				b.WriteByte('/')
			}
			if plainPathPart(part) {
				b.WriteString(part)
			} else {
				b.WriteString(Mask)
			}
		}
	}
	if u.RawQuery != "" {
		b.WriteString("?" + Mask)
	}
	if u.Fragment != "" {
		b.WriteString("#" + Mask)
	}
	return b.String()
}

// Format prints String for every verb and flag.
func (e Endpoint) Format(f fmt.State, _ rune) { io.WriteString(f, e.String()) }

// MarshalText gives String.
func (e Endpoint) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// LogValue gives String.
func (e Endpoint) LogValue() slog.Value { return slog.StringValue(e.String()) }

// maxPlainPathPart is the longest part of a path that is shown. The words in real
// endpoints are shorter (the longest known is "opentelemetry", 13); access tokens
// are longer.
const maxPlainPathPart = 15

// plainPathPart reports whether a part of a path may be shown: letters, digits,
// "-" and "." only. Tokens such as "adapt_user@key" have other characters.
func plainPathPart(part string) bool {
	if len(part) > maxPlainPathPart {
		return false
	}
	for _, c := range []byte(part) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.':
		default:
			return false
		}
	}
	return true
}
