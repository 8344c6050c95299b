package otlp

// What must not be logged of a collector's answer. Servers and proxies repeat what they
// were sent, in error pages ("Cannot POST /adapt_TOKEN/…") and messages ("unknown key …"),
// and those are in the errors of the SDK's exporters.

import (
	"encoding/base64"
	"net/url"
	"os"
	"strings"
)

const (
	// maxCause bounds the cause in a log line: a collector's answer may be a whole page.
	maxCause = 300
	// maxAnswer bounds what is looked at of it.
	maxAnswer = 4096
	// fragment is how much of a secret must appear, in bytes, for a text to repeat it:
	// servers shorten keys, and escape some of their characters. Less than that is in many
	// a text by chance, and of no use to who finds it.
	fragment = 8
)

// secrets are the texts that an export carries and that nobody but the collector is to
// see, in lower case.
type secrets []string

// secrets gives those of a collector: the values of headers, user and password, and of the
// path and query what does not look like plain words. ARMS' workspace and project are
// names, which Tokenscope shows elsewhere too.
func (c *Collector) secrets() secrets {
	var s secrets
	s.add(c.ARMSLicenseKey)
	for _, value := range c.Headers {
		s.addHeader(value)
	}
	if u, err := url.Parse(c.target()); err == nil {
		s.addUser(u.User)
		for _, path := range []string{u.EscapedPath(), u.Path} {
			for part := range strings.SplitSeq(path, "/") {
				if !plainPart(part) && u.Scheme != "unix" {
					s.add(part)
				}
			}
		}
		s.add(u.RawQuery)
		s.add(u.Fragment)
	}
	// net/http repeats a proxy that it cannot use, as it was written.
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"} {
		if user, _, ok := strings.Cut(os.Getenv(name), "@"); ok {
			_, user, _ = cutLast(user, "//")
			s.add(user)
		}
	}
	return s
}

// cutLast is strings.Cut at the last sep; after is the whole text where there is none.
func cutLast(text, sep string) (before, after string, found bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return "", text, false
	}
	return text[:i], text[i+len(sep):], true
}

func (s *secrets) add(text string) {
	if text != "" {
		*s = append(*s, strings.ToLower(text))
	}
}

// addHeader adds a header's value without the word for its scheme ("Bearer"), and what is
// encoded in it.
func (s *secrets) addHeader(value string) {
	_, value, _ = cutLast(value, " ")
	s.add(value)
	if plain, err := base64.StdEncoding.DecodeString(value); err == nil {
		user, password, _ := strings.Cut(string(plain), ":")
		s.add(user)
		s.add(password)
	}
}

func (s *secrets) addUser(u *url.Userinfo) {
	if u == nil {
		return
	}
	password, _ := u.Password()
	s.add(u.Username())
	s.add(password)
	s.add(base64.StdEncoding.EncodeToString([]byte(u.Username() + ":" + password)))
}

// plainPart reports whether a part of a path is a word, as in /apm/trace/opentelemetry.
// The limit of its length is that of `instrument config`, which masks by the same rule.
func plainPart(part string) bool {
	const longest = 15
	return len(part) <= longest && !strings.ContainsFunc(part, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '.'
	})
}

// in reports whether text repeats a secret, or a good part of one. One that is shorter
// than that, such as a tenant's "1", must stand there as a word.
func (s secrets) in(text string) bool {
	text = strings.ToLower(text)
	for _, secret := range s {
		if len(secret) < fragment {
			if hasWord(text, secret) {
				return true
			}
			continue
		}
		for i := range len(secret) - fragment + 1 {
			if strings.Contains(text, secret[i:i+fragment]) {
				return true
			}
		}
	}
	return false
}

// hasWord reports whether word is in text with no letter or digit on either side.
func hasWord(text, word string) bool {
	alnum := func(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c >= 0x80 }
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		begin := from + i
		end := begin + len(word)
		if (begin == 0 || !alnum(text[begin-1])) && (end == len(text) || !alnum(text[end])) {
			return true
		}
		from = begin + 1
	}
}

// cause is an error's text as it may be logged; where it repeats a secret, instead is.
func (s secrets) cause(text, instead string) string {
	text = withoutURLs(strings.ToValidUTF8(text[:min(len(text), maxAnswer)], ""))
	if s.in(text) {
		return instead + ", in words that are not shown, as they repeat a secret"
	}
	return short(text)
}
