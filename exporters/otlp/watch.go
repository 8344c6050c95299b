package otlp

import (
	"context"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// watch wraps the OTLP exporter: it counts spans by what became of them, logs a line
// when the collector's state changes, and can be told to give up. It reports no error
// to the batch processor, which would log every batch.
type watch struct {
	next   sdktrace.SpanExporter
	target string
	log    *slog.Logger

	exported, failed atomic.Int64

	// stop is cancelled by abort.
	stop   context.Context
	cancel context.CancelFunc
	closed chan struct{}
	once   sync.Once

	// mu guards failing and lost, the spans that failed since it was set.
	mu      sync.Mutex
	failing bool
	lost    int64
}

func newWatch(next sdktrace.SpanExporter, target string, log *slog.Logger) *watch {
	w := &watch{next: next, target: target, log: log, closed: make(chan struct{})}
	w.stop, w.cancel = context.WithCancel(context.Background())
	return w
}

var _ sdktrace.SpanExporter = (*watch)(nil)

// ExportSpans hands the batch on. Retrying is the exporter's own business.
func (w *watch) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	n := int64(len(spans))
	if w.stop.Err() != nil {
		w.failed.Add(n)
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.stop, cancel)()
	err := w.next.ExportSpans(ctx, spans)
	rejected := n
	if err == nil {
		rejected = 0
	} else if r, ok := partial(err); ok {
		rejected = min(r, n)
	}
	w.exported.Add(n - rejected)
	w.failed.Add(rejected)
	w.changed(err, rejected)
	return nil
}

// changed logs the step from taking to not taking spans and back. A collector that was
// never reached is news; one that works from the start is not.
func (w *watch) changed(err error, rejected int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case rejected > 0:
		w.lost += rejected
		if !w.failing {
			w.failing = true
			w.log.Warn("collector does not take spans; they are dropped until it does",
				"collector", w.target, "cause", safe(err.Error()))
		}
	case w.failing:
		w.log.Info("collector takes spans again", "collector", w.target, "spans_lost", w.lost)
		w.failing, w.lost = false, 0
	}
}

// abort makes running and later exports fail at once.
func (w *watch) abort() { w.cancel() }

// Shutdown closes the connection.
func (w *watch) Shutdown(ctx context.Context) error {
	var err error
	w.once.Do(func() {
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

// maxCause bounds the cause in a log line: a collector's answer may be a whole page.
const maxCause = 300

// urls matches an address up to its path, query and fragment, which may hold a token.
var urls = regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)(?:[^\s/"'@]*@)?([^\s/"'?#]*)[^\s"']*`)

// safe is an error's text as it may be logged.
func safe(text string) string {
	text = urls.ReplaceAllString(text, "$1$2")
	if len(text) > maxCause {
		text = strings.ToValidUTF8(text[:maxCause], "") + "…"
	}
	return text
}
