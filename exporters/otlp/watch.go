package otlp

import (
	"context"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// watch wraps the OTLP exporter: it tries again what may succeed later, counts spans by
// what became of them, logs a line when the collector's state changes, and can be told
// to hurry and to give up. It reports no error to the batch processor, which would log
// every batch.
//
// While an export is tried again the batch processor's queue fills, and then the
// Pipeline's, where Requests are dropped and counted.
type watch struct {
	next    sdktrace.SpanExporter
	target  string
	secrets secrets
	log     *slog.Logger

	exported, failed atomic.Int64

	// stop is cancelled by abort.
	stop   context.Context
	cancel context.CancelFunc
	// hurried is closed by hurry, closed by Shutdown.
	hurried, closed     chan struct{}
	hurryOnce, shutOnce sync.Once

	// mu guards failing and lost, the spans that failed since it was set.
	mu      sync.Mutex
	failing bool
	lost    int64
}

func newWatch(next sdktrace.SpanExporter, target string, secrets secrets, log *slog.Logger) *watch {
	w := &watch{next: next, target: target, secrets: secrets, log: log, hurried: make(chan struct{}), closed: make(chan struct{})}
	w.stop, w.cancel = context.WithCancel(context.Background())
	return w
}

var _ sdktrace.SpanExporter = (*watch)(nil)

// ExportSpans hands the batch on, more than once if need be, until ctx ends.
func (w *watch) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	n := int64(len(spans))
	if w.stop.Err() != nil {
		w.failed.Add(n)
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.stop, cancel)()
	var p pauses
	for {
		var a answer
		err := w.next.ExportSpans(withAnswer(ctx, &a), spans)
		rejected := n
		if err == nil {
			rejected = 0
		} else if r, ok := partial(err); ok {
			if rejected = min(r, n); rejected == 0 {
				err = nil // taken, with a remark
			}
		} else if ok, pause := again(err, &a); ok && ctx.Err() == nil {
			w.changed(err, &a, 0)
			if w.pause(ctx, max(pause, p.next())) {
				continue
			}
		}
		w.exported.Add(n - rejected)
		w.failed.Add(rejected)
		w.changed(err, &a, rejected)
		return nil
	}
}

// pause waits and reports whether there is to be another attempt: not where ctx ends
// before. hurry ends the pause, and with it the next is the last.
func (w *watch) pause(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	select {
	case <-w.hurried:
		return false
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.hurried:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// changed logs the step from taking to not taking spans and back. err with no span
// rejected is an attempt that others follow. A collector that was never reached is
// news; one that works from the start is not.
func (w *watch) changed(err error, a *answer, rejected int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil && !w.failing:
	case err == nil:
		w.log.Info("collector takes spans again", "collector", w.target, "spans_lost", w.lost)
		w.failing, w.lost = false, 0
	default:
		w.lost += rejected
		if w.failing {
			return
		}
		w.failing = true
		msg := "collector does not take spans; trying again"
		if rejected > 0 {
			msg = "collector does not take spans; they are dropped until it does"
		}
		w.log.Warn(msg, "collector", w.target, "cause", w.secrets.cause(err.Error(), a.inShort(err)))
	}
}

// hurry makes running and later exports end with their next attempt.
func (w *watch) hurry() { w.hurryOnce.Do(func() { close(w.hurried) }) }

// abort makes running and later exports fail at once.
func (w *watch) abort() { w.cancel() }

// Shutdown closes the connection.
func (w *watch) Shutdown(ctx context.Context) error {
	var err error
	w.shutOnce.Do(func() {
		err = w.next.Shutdown(ctx)
		w.cancel()
		close(w.closed)
	})
	return err
}

// partialSuccess is how the OTLP exporters word a collector's partial success; the
// error's type is internal to them.
// Source: opentelemetry-go 1.47.0, otlptracegrpc/internal/partialsuccess.go.
var partialSuccess = regexp.MustCompile(`^traces export: OTLP partial success: (?s:.*) \((\d+) spans rejected\)$`)

// partial reads how many spans of a batch that arrived were rejected.
func partial(err error) (rejected int64, ok bool) {
	m := partialSuccess.FindStringSubmatch(err.Error())
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	return n, err == nil
}

// urls matches an address up to its path, query and fragment, which may hold a token.
var urls = regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)(?:[^\s/"'@]*@)?([^\s/"'?#]*)[^\s"']*`)

// safe is a text of our own side as it may be logged.
func safe(text string) string { return short(withoutURLs(text)) }

// withoutURLs leaves scheme and host of each address.
func withoutURLs(text string) string { return urls.ReplaceAllString(text, "$1$2") }

func short(text string) string {
	if len(text) > maxCause {
		text = strings.ToValidUTF8(text[:maxCause], "") + "…"
	}
	return text
}
