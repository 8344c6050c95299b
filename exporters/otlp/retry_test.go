package otlp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tokenscope/tokenscope/exporters/internal/requesttest"
)

func TestAgain(t *testing.T) {
	grpcError := func(c codes.Code) error { return fmt.Errorf("traces export: %w", status.Error(c, "x")) }
	detailed, err := status.New(codes.ResourceExhausted, "x").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(3 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	refused := fmt.Errorf("traces export: %w", &url.Error{Op: "Post", URL: "http://c", Err: errors.New("connection refused")})
	answered := errors.New("traces export: retry-able request failure")
	for _, c := range []struct {
		name  string
		err   error
		a     answer
		ok    bool
		pause time.Duration
	}{
		{"gRPC unavailable", grpcError(codes.Unavailable), answer{}, true, 0},
		{"gRPC unavailable, beside the end of time", fmt.Errorf("traces export: %w: %w", errors.New("timeout"), status.Error(codes.Unavailable, "x")), answer{}, true, 0},
		{"gRPC deadline", grpcError(codes.DeadlineExceeded), answer{}, true, 0},
		{"gRPC exhausted", grpcError(codes.ResourceExhausted), answer{}, false, 0},
		{"gRPC exhausted for 3 s", fmt.Errorf("traces export: %w", detailed.Err()), answer{}, true, 3 * time.Second},
		{"gRPC permission", grpcError(codes.PermissionDenied), answer{}, false, 0},
		{"gRPC unknown method", grpcError(codes.Unimplemented), answer{}, false, 0},
		{"HTTP no connection", refused, answer{}, true, 0},
		{"HTTP 503", answered, answer{status: 503}, true, 0},
		{"HTTP 429 for 7 s", answered, answer{status: 429, retryAfter: 7 * time.Second}, true, 7 * time.Second},
		{"HTTP 500", answered, answer{status: 500}, false, 0},
		{"HTTP 400", answered, answer{status: 400}, false, 0},
		{"HTTP 200 whose body broke off", refused, answer{status: 200}, false, 0},
		{"neither", errors.New("request body too large"), answer{}, false, 0},
	} {
		if ok, pause := again(c.err, &c.a); ok != c.ok || pause != c.pause {
			t.Errorf("%s: again = %v, %v; want %v, %v", c.name, ok, pause, c.ok, c.pause)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		in       string
		min, max time.Duration
	}{
		{"", 0, 0}, {"0", 0, 0}, {"12", 12 * time.Second, 12 * time.Second},
		{"-1", 0, 0}, {"soon", 0, 0}, {"99999999999999999999", 0, 0},
		{"2000000000", maxRetryAfter, maxRetryAfter},
		{"Wed, 21 Oct 2015 07:28:00 GMT", 0, 0},
		{"Wed, 21 Oct 2215 07:28:00 GMT", maxRetryAfter, maxRetryAfter},
	} {
		if got := retryAfter(c.in); got < c.min || got > c.max {
			t.Errorf("retryAfter(%q) = %v; want %v to %v", c.in, got, c.min, c.max)
		}
	}
}

func TestPauses(t *testing.T) {
	var p pauses
	for i, whole := range []time.Duration{250, 500, 1000, 2000, 2000} {
		whole *= time.Millisecond
		if got := p.next(); got < whole/2 || got >= whole {
			t.Errorf("pause %d = %v; want %v to %v", i, got, whole/2, whole)
		}
	}
}

// eventually waits until ok, and says what it waited for where that does not come.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not so after 30 s: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestCollectorComesBack: nothing is lost of what has room while a collector restarts.
func TestCollectorComesBack(t *testing.T) {
	for _, c := range protocols {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			address, open := absent(t)
			cfg := collector(c.name, address)
			cfg.Timeout = 10 * time.Second
			var said log
			var r receiver
			p, err := New(context.Background(), Config{
				Exporters: []string{ExporterOTLP}, Collector: cfg, Tree: level1, Log: said.logger(),
				Batch: Batch{ScheduleDelay: 10 * time.Millisecond, ExportTimeout: 30 * time.Second},
			})
			if err != nil {
				t.Fatal(err)
			}
			// More than one batch, so that some wait behind the one that is tried again.
			const requests = 200
			for range requests {
				p.Enqueue(requesttest.Plain())
			}
			eventually(t, "a line says that the collector is away", func() bool { return len(said.lines()) > 0 })
			time.Sleep(2 * time.Second) // as a restart takes; several attempts fail meanwhile
			if s := p.Stats(); s.Failed != 0 {
				t.Errorf("Stats = %+v while the collector is away; want none failed", s)
			}
			c.serveOn(t, &r, open())
			eventually(t, "all spans arrived", func() bool { return p.Stats().Exported == 6*requests })
			if err := p.Shutdown(context.Background()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			if got := len(r.got()); got != 6*requests {
				t.Errorf("%d spans arrived; want %d", got, 6*requests)
			}
			lines := said.lines()
			if len(lines) != 2 || !strings.Contains(lines[0], "refused") || !strings.Contains(lines[1], "takes spans again") ||
				!strings.Contains(lines[1], "spans_lost=0") {
				t.Errorf("log = %q; want one line for down and one for up, nothing lost", lines)
			}
		})
	}
}

// TestRoomIsBoundedWhileTheCollectorIsAway: what has no room is dropped and counted, in
// whole Requests; what has room arrives.
func TestRoomIsBoundedWhileTheCollectorIsAway(t *testing.T) {
	for _, c := range protocols {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			address, open := absent(t)
			var said log
			var r receiver
			p, err := New(context.Background(), Config{
				Exporters: []string{ExporterOTLP}, Collector: collector(c.name, address), Log: said.logger(),
				QueueRequests: 4, Batch: Batch{ScheduleDelay: time.Millisecond, MaxQueueSize: 2, MaxBatchSize: 2},
			})
			if err != nil {
				t.Fatal(err)
			}
			p.Enqueue(requesttest.Plain())
			eventually(t, "a line says that the collector is away", func() bool { return len(said.lines()) > 0 })
			const requests = 100
			for range requests - 1 {
				p.Enqueue(requesttest.Plain())
			}
			// One batch of two spans on its way, two in the SDK's queue, one in the emitter's
			// hand: at most two Requests of three spans beside the four of the queue.
			s := p.Stats()
			if s.Accepted < 5 || s.Accepted > 7 || s.Accepted+s.Dropped != requests || s.Failed != 0 {
				t.Errorf("Stats = %+v; want 5 to 7 accepted, the rest of %d dropped", s, requests)
			}
			c.serveOn(t, &r, open())
			eventually(t, "what was accepted arrived", func() bool { return p.Stats().Exported == 3*s.Accepted })
			if err := p.Shutdown(context.Background()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		})
	}
}

// TestCollectorAbsent: Shutdown ends the waiting, in time and without a span unaccounted.
func TestCollectorAbsent(t *testing.T) {
	for _, c := range protocols {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			address, _ := absent(t)
			var said log
			p, err := New(context.Background(), Config{
				Exporters: []string{ExporterOTLP}, Collector: collector(c.name, address+"/secret-token"), Tree: level1, Log: said.logger(),
			})
			if err != nil {
				t.Fatal(err)
			}
			// More than one batch, so that there is more than one failure to be silent about.
			const requests = 200
			for range requests {
				p.Enqueue(requesttest.Plain())
			}
			// No deadline, and no limit for an export: it is the end that ends it.
			if err := p.Shutdown(context.Background()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			want := Stats{Accepted: requests, Sampled: 6 * requests, Failed: 6 * requests}
			if s := p.Stats(); s != want {
				t.Errorf("Stats = %+v; want %+v", s, want)
			}
			lines := said.lines()
			if len(lines) != 1 || !strings.Contains(lines[0], "refused") {
				t.Errorf("log = %q; want one line with the cause", lines)
			}
			if text := strings.Join(lines, "\n"); strings.Contains(text, "secret-token") {
				t.Errorf("log = %q; want no path of the endpoint", text)
			}
		})
	}
}

func TestExportTimeoutEndsRetries(t *testing.T) {
	for _, c := range protocols {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			address, _ := absent(t)
			p, err := New(context.Background(), Config{
				Exporters: []string{ExporterOTLP}, Collector: collector(c.name, address),
				Batch: Batch{ScheduleDelay: time.Millisecond, ExportTimeout: 300 * time.Millisecond},
			})
			if err != nil {
				t.Fatal(err)
			}
			p.Enqueue(requesttest.Plain())
			eventually(t, "the spans failed", func() bool { return p.Stats().Failed == 3 })
			if err := p.Shutdown(context.Background()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		})
	}
}

func TestAnswersThatAskForPatience(t *testing.T) {
	for _, c := range protocols {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := receiver{busy: 2}
			var said log
			p, err := New(context.Background(), Config{
				Exporters: []string{ExporterOTLP}, Collector: c.serve(t, &r), Log: said.logger(),
				Batch: Batch{ScheduleDelay: time.Millisecond},
			})
			if err != nil {
				t.Fatal(err)
			}
			p.Enqueue(requesttest.Plain())
			eventually(t, "the spans arrived", func() bool { return p.Stats().Exported == 3 })
			if err := p.Shutdown(context.Background()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			if lines := said.lines(); len(lines) != 2 || !strings.Contains(lines[0], "trying again") {
				t.Errorf("log = %q; want one line for each change", lines)
			}
		})
	}
}

// TestSilentCollector: one that takes connections and does not answer.
func TestSilentCollector(t *testing.T) {
	for _, c := range protocols {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := listen(t) // the kernel accepts; nobody reads
			defer func() { _ = l.Close() }()
			p, err := New(context.Background(), Config{Exporters: []string{ExporterOTLP}, Collector: collector(c.name, "http://"+l.Addr().String())})
			if err != nil {
				t.Fatal(err)
			}
			for range 200 {
				p.Enqueue(requesttest.Plain())
			}
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			if err := p.Shutdown(ctx); err == nil || ctx.Err() != nil {
				t.Errorf("Shutdown = %v, deadline passed: %v; want an error before the deadline", err, ctx.Err() != nil)
			}
			if s := p.Stats(); s.Failed != s.Sampled || s.Exported != 0 || s.Sampled+3*s.Dropped != 600 {
				t.Errorf("Stats = %+v; want every Request either failed or dropped", s)
			}
		})
	}
}
