package otlp

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
)

// maxSaid bounds the messages that are remembered as said.
const maxSaid = 128

// SetLog sends what the SDK itself has to say to log: each message once. It is global, as the SDK's own setting is; without it the
// SDK writes to standard error in its own form.
//
// Only the message and the error are logged: the values beside them can be headers.
func SetLog(log *slog.Logger) {
	s := &sink{log: log, said: map[string]bool{}}
	otel.SetLogger(logr.New(s))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { s.Error(err, "OpenTelemetry") }))
}

// muted counts the parts of the SDK that are being built. Each reads its variables,
// though options replace them, and complains of those that it cannot read: what we do
// with those was said where they were validated.
var muted atomic.Int32

// mute silences the SDK until the function that it returns is called.
func mute() (unmute func()) {
	muted.Add(1)
	return func() { muted.Add(-1) }
}

// sink is a logr.LogSink that takes errors and warnings.
type sink struct {
	log  *slog.Logger
	mu   sync.Mutex
	said map[string]bool
}

func (s *sink) Init(logr.RuntimeInfo) {}

// Enabled: the SDK warns at level 1; from 4 on it tells of its inner life.
func (s *sink) Enabled(level int) bool { return level <= 1 }

func (s *sink) Info(_ int, msg string, _ ...any) { s.once("OpenTelemetry: "+safe(msg), "") }

func (s *sink) Error(err error, msg string, _ ...any) {
	cause := ""
	if err != nil {
		cause = safe(err.Error())
	}
	s.once(safe(msg), cause)
}

func (s *sink) WithValues(...any) logr.LogSink { return s }

func (s *sink) WithName(string) logr.LogSink { return s }

func (s *sink) once(msg, cause string) {
	if muted.Load() > 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := msg + "\x00" + cause
	if s.said[key] || len(s.said) >= maxSaid {
		return
	}
	s.said[key] = true
	if cause == "" {
		s.log.Warn(msg)
		return
	}
	s.log.Warn(msg, "cause", cause)
}
