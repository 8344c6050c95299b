package agent

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tokenscope/tokenscope/exporters/console"
	"github.com/tokenscope/tokenscope/exporters/ledger"
	"github.com/tokenscope/tokenscope/exporters/otlp"
	"github.com/tokenscope/tokenscope/exporters/spanjson"
	"github.com/tokenscope/tokenscope/exporters/spantree"
	"github.com/tokenscope/tokenscope/exporters/summary"
	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/probes/capture"
)

// Forms of a replay's output.
const (
	OutputSummary  = "summary"
	OutputRequests = "requests"
	OutputSpans    = "spans"
	OutputTrees    = "trees"
)

// ReplayOptions say what to replay and how to print it.
type ReplayOptions struct {
	Output string
	// Paths are recordings, fixture folders, or folders that hold some.
	Paths        []string
	Stdout       io.Writer
	Log          *slog.Logger
	Tree         spantree.Options
	TraceContext bool
}

// Replay runs recordings through the pipeline and prints what comes out, one recording
// after the other. The same recording gives the same bytes every time. A recording that
// cannot be read is an error; those after it are read all the same.
func Replay(ctx context.Context, o ReplayOptions) error {
	var paths []string
	for _, p := range o.Paths {
		found, err := capture.Find(p)
		if err != nil {
			return err
		}
		paths = append(paths, found...)
	}
	out := bufio.NewWriterSize(o.Stdout, 1<<16)
	var failed error
	for i, path := range paths {
		if o.Output == OutputSummary && len(paths) > 1 {
			if i > 0 {
				fmt.Fprintln(out)
			}
			fmt.Fprintf(out, "%s\n", path)
		}
		if err := replayOne(ctx, &o, path, out); err != nil {
			if ctx.Err() != nil {
				return err
			}
			if failed != nil {
				o.Log.Error(failed.Error())
			}
			failed = err
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return failed
}

func replayOne(ctx context.Context, o *ReplayOptions, path string, out io.Writer) error {
	rec, err := capture.OpenRecording(path)
	if err != nil {
		return err
	}
	defer rec.Close()
	res := recordedResource(rec.Header.Resource)
	form, err := newForm(o, out, res)
	if err != nil {
		return err
	}
	var outErr error
	p, err := replayPipeline(&rec.Header, o, func(r *request.Request) {
		if outErr == nil {
			outErr = form.emit(r)
		}
	})
	if err != nil {
		return err
	}
	err = rec.Run(ctx, p.Event)
	p.Flush()
	if rec.Torn {
		o.Log.Warn("the recording ends in the middle of an event; what came before was read", "recording", path)
	}
	if cerr := form.close(ctx); outErr == nil {
		outErr = cerr
	}
	if outErr != nil {
		return fmt.Errorf("write output: %w", outErr)
	}
	if err != nil {
		return fmt.Errorf("replay %s: %w", path, err)
	}
	return nil
}

// replayPipeline builds a Pipeline whose ids come from the recording.
func replayPipeline(h *capture.Header, o *ReplayOptions, emit func(*request.Request)) (*Pipeline, error) {
	seed, err := h.SeedBytes()
	if err != nil {
		return nil, err
	}
	opts := request.Options{Emit: emit, Random: rand.NewChaCha8(seed).Uint64, Engine: h.Engine, EngineVersion: h.EngineVersion}
	if o.Tree.Level >= 2 {
		opts.KeepSteps = max(o.Tree.EventLimit, 1) // with a limit of 0 they are still counted
	}
	return NewPipeline(opts, o.TraceContext), nil
}

// form is one form of output.
type form struct {
	emit  func(*request.Request) error
	close func(context.Context) error
}

func newForm(o *ReplayOptions, out io.Writer, res *resource.Resource) (form, error) {
	spans := func(e sdktrace.SpanExporter) form {
		r := otlp.NewReplay(e, o.Tree, res)
		return form{r.Emit, r.Close}
	}
	switch o.Output {
	case OutputSpans:
		return spans(spanjson.New(out)), nil
	case OutputTrees:
		return spans(console.New(out)), nil
	case OutputRequests:
		var line []byte
		instance := otlp.InstanceID(res)
		return form{
			emit: func(r *request.Request) error {
				line = append(ledger.AppendLine(line[:0], r, instance), '\n')
				_, err := out.Write(line)
				return err
			},
			close: func(context.Context) error { return nil },
		}, nil
	case OutputSummary:
		t := &summary.Table{}
		return form{
			emit:  func(r *request.Request) error { t.Add(r); return nil },
			close: func(context.Context) error { _, err := t.WriteTo(out); return err },
		}, nil
	}
	return form{}, fmt.Errorf("unknown output %q", o.Output)
}

// recordedResource is the resource that a recording's header holds.
func recordedResource(values map[string]string) *resource.Resource {
	kvs := make([]attribute.KeyValue, 0, len(values))
	for k, v := range values {
		kvs = append(kvs, attribute.String(k, v))
	}
	return resource.NewSchemaless(kvs...)
}
