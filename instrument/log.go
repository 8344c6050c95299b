package instrument

// The form of our own messages: one line each, on stderr, that a person can tell from
// the workload's output at a glance:
//
//	instrument: warning: collector unreachable endpoint=localhost:4317
//
// There is no time in a line: servers print their own beside it, and lines would be
// longer than what they say.

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/tokenscope/tokenscope/instrument/settings"
)

// Name is how the program calls itself in messages.
const Name = "instrument"

// NewLogger gives a logger that writes lines of the form above to w, from level on.
// Each line is one Write. It is safe for concurrent use.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(&lineHandler{out: &lineWriter{w: w}, level: level})
}

// lineWriter is shared by a handler and those made from it.
type lineWriter struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

// lineHandler is a slog.Handler.
type lineHandler struct {
	out    *lineWriter
	level  slog.Leveler
	attrs  string // of WithAttrs, ready to print
	prefix string // of WithGroup: "a.b."
}

func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.level.Level()
}

func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	b := append(h.out.buf[:0], Name...)
	b = append(b, ": "...)
	b = append(b, severity(r.Level)...)
	b = appendLine(b, r.Message)
	b = append(b, h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		b = appendAttr(b, h.prefix, a)
		return true
	})
	b = append(b, '\n')
	h.out.buf = b
	_, err := h.out.w.Write(b)
	return err
}

func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	b := []byte(h.attrs)
	for _, a := range attrs {
		b = appendAttr(b, h.prefix, a)
	}
	h2 := *h
	h2.attrs = string(b)
	return &h2
}

func (h *lineHandler) WithGroup(name string) slog.Handler {
	h2 := *h
	if name != "" {
		h2.prefix += name + "."
	}
	return &h2
}

// severity says how bad it is; of ordinary messages nothing needs to be said.
func severity(level slog.Level) string {
	switch {
	case level >= slog.LevelError:
		return "error: "
	case level >= slog.LevelWarn:
		return "warning: "
	case level >= slog.LevelInfo:
		return ""
	case level >= slog.LevelDebug:
		return "debug: "
	}
	return "trace: "
}

func appendAttr(b []byte, prefix string, a slog.Attr) []byte {
	value := a.Value.Resolve()
	if a.Equal(slog.Attr{}) {
		return b
	}
	if value.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range value.Group() {
			b = appendAttr(b, prefix, member)
		}
		return b
	}
	b = append(b, ' ')
	b = appendLine(b, prefix+a.Key)
	b = append(b, '=')
	s := value.String()
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r == ' ' || r == '"' || r == '=' || unsafeRune(r) }) {
		return strconv.AppendQuote(b, s)
	}
	return append(b, s...)
}

// appendLine appends text with what would break the line or steer a terminal escaped:
// messages may carry bytes of the observed process.
func appendLine(b []byte, text string) []byte {
	if !strings.ContainsFunc(text, unsafeRune) {
		return append(b, text...)
	}
	quoted := strconv.AppendQuote(nil, text)
	return append(b, quoted[1:len(quoted)-1]...)
}

// unsafeRune also holds for what turns the direction of a line or ends it for some.
func unsafeRune(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }

// quoteWord gives a word of the command line as it is, or quoted where it could not be
// told from its surroundings.
func quoteWord(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return r == ' ' || unsafeRune(r) }) {
		return word
	}
	return strconv.Quote(word)
}

// logWarnings says what could not be used as it was set.
func logWarnings(log *slog.Logger, warnings []settings.Warning) {
	for _, w := range warnings {
		log.Warn(w.String())
	}
}
