package spantree_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/tokenscope/tokenscope/exporters/internal/golden"
	"github.com/tokenscope/tokenscope/exporters/internal/requesttest"
	"github.com/tokenscope/tokenscope/exporters/spantree"
	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/semconv"
)

// render writes spans as an indented text, times in ms since r began.
func render(r *request.Request, spans []spantree.Span) []byte {
	var b bytes.Buffer
	at := func(ns int64) float64 { return float64(ns-r.Wall(1000e9)) / 1e6 }
	depth := make([]int, len(spans))
	for i, s := range spans {
		if s.Parent >= 0 {
			depth[i] = depth[s.Parent] + 1
		}
		in := strings.Repeat("    ", depth[i])
		fmt.Fprintf(&b, "%s%s %s  %.3f … %.3f ms", in, strings.ToUpper(s.Kind.String()), s.Name, at(s.Start), at(s.End))
		if s.Status != codes.Unset {
			fmt.Fprintf(&b, "  %s", s.Status)
		}
		b.WriteByte('\n')
		attributes := func(in string, kvs []attribute.KeyValue) {
			for _, kv := range kvs {
				v := kv.Value.String()
				if len(v) > 60 {
					v = fmt.Sprintf("%.20s… (%d bytes)", v, len(v))
				}
				fmt.Fprintf(&b, "%s%s = %s %s\n", in, kv.Key, kv.Value.Type(), v)
			}
		}
		attributes(in+"    | ", s.Attributes)
		for _, e := range s.Events {
			fmt.Fprintf(&b, "%s    • %s  %.3f ms\n", in, e.Name, at(e.Time))
			attributes(in+"        | ", e.Attributes)
		}
	}
	return b.Bytes()
}

func TestBuildGolden(t *testing.T) {
	for _, c := range requesttest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			golden.Check(t, c.Name+".txt", render(c.Request, spantree.Build(c.Request, spantree.Options{Level: 1, EventLimit: 128})))
		})
	}
}

// TestScheme: a connection that the server itself encrypts is https.
func TestScheme(t *testing.T) {
	for tls, want := range map[bool]string{false: "http", true: "https"} {
		r := requesttest.Plain()
		r.HTTP.TLS = tls
		got := "absent"
		for _, kv := range spantree.Build(r, spantree.Options{})[0].Attributes {
			if kv.Key == semconv.URLScheme {
				got = kv.Value.AsString()
			}
		}
		if got != want {
			t.Errorf("TLS %v: scheme = %q; want %q", tls, got, want)
		}
	}
}

func TestBuildOptionsGolden(t *testing.T) {
	for _, c := range []struct {
		name string
		o    spantree.Options
	}{
		{"plain-level-0", spantree.Options{Level: 0, EventLimit: 128}},
		{"plain-level-2", spantree.Options{Level: 2, EventLimit: 128}},
		{"plain-otel", spantree.Options{Level: 1, Dialect: semconv.DialectOTel}},
		{"plain-arms", spantree.Options{Level: 1, Dialect: semconv.DialectARMS}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := requesttest.Plain()
			golden.Check(t, c.name+".txt", render(r, spantree.Build(r, c.o)))
		})
	}
}

// TestParentsEncloseChildren also pins the order that exporters rely on.
func TestParentsEncloseChildren(t *testing.T) {
	cases := append(requesttest.Cases(), requesttest.Case{Name: "empty", Request: &request.Request{
		HTTP: &request.Exchange{Endpoint: request.EndpointChat}, Sequences: []*request.Sequence{{}}}})
	for _, c := range cases {
		for level := range 3 {
			spans := spantree.Build(c.Request, spantree.Options{Level: level, EventLimit: 128})
			for i, s := range spans {
				if s.End < s.Start {
					t.Errorf("%s: span %d (%s) ends at %d, before its start %d", c.Name, i, s.Name, s.End, s.Start)
				}
				if s.Parent >= i {
					t.Fatalf("%s: span %d (%s) has parent %d; want parents first", c.Name, i, s.Name, s.Parent)
				}
				if s.Parent < 0 {
					continue
				}
				p := spans[s.Parent]
				if s.Start < p.Start || s.End > p.End {
					t.Errorf("%s: %s is [%d, %d], outside its parent %s [%d, %d]", c.Name, s.Name, s.Start, s.End, p.Name, p.Start, p.End)
				}
				for j := s.Parent + 1; j < i; j++ {
					if spans[j].Parent < s.Parent {
						t.Errorf("%s: span %d stands between %d and its parent %d: subtrees are not contiguous", c.Name, j, i, s.Parent)
					}
				}
			}
		}
	}
}

func TestTextIsValidAndBounded(t *testing.T) {
	for _, s := range spantree.Build(requesttest.Hostile(), spantree.Options{Level: 2, EventLimit: 8}) {
		texts := []string{s.Name}
		for _, kv := range s.Attributes {
			if kv.Value.Type() == attribute.STRING {
				texts = append(texts, kv.Value.AsString())
			}
		}
		for _, text := range texts {
			if !utf8.ValidString(text) || len(text) > 1024 {
				t.Errorf("Build: %s has text of %d bytes, valid UTF-8: %v; want at most 1024, valid", s.Name, len(text), utf8.ValidString(text))
			}
		}
	}
}

func TestServerSpanNeverNamesThePath(t *testing.T) {
	r := requesttest.HTTPOnly()
	r.HTTP.Route, r.HTTP.Path, r.HTTP.Endpoint = "", "/secret/42", request.EndpointOther
	spans := spantree.Build(r, spantree.Options{})
	if len(spans) != 1 || spans[0].Name != "POST" {
		t.Errorf("Build(unknown route) = %d spans, first %q; want one, POST", len(spans), spans[0].Name)
	}
}

// TestFinishReasons: the engine says nothing of how a request ended that its front-end
// aborted.
func TestFinishReasons(t *testing.T) {
	aborted := func(api []string, complete, disconnected bool) *request.Request {
		r := requesttest.Plain()
		r.HTTP.FinishReasons, r.HTTP.Complete, r.Disconnected = api, complete, disconnected
		r.Sequences[0].Finish, r.Sequences[0].Aborted = request.FinishNone, true
		return r
	}
	stopAlone := requesttest.StopString()
	stopAlone.HTTP.FinishReasons = nil
	for _, c := range []struct {
		name              string
		r                 *request.Request
		operation, engine []string
	}{
		{"engine's own", requesttest.Plain(), []string{"length"}, []string{"length"}},
		{"stop string", aborted([]string{"stop"}, true, false), []string{"stop"}, []string{"stop"}},
		{"stop string, words of the response not seen", stopAlone, []string{"stop"}, []string{"stop"}},
		{"stop string, the API's own word", aborted([]string{"stop_sequence"}, true, false), []string{"stop_sequence"}, []string{"stop"}},
		{"client left", aborted(nil, false, true), []string{"abort"}, []string{"abort"}},
		{"dropped", aborted(nil, false, false), []string{"abort"}, []string{"abort"}},
		{"engine dead", requesttest.EngineDead(), nil, nil},
	} {
		spans := spantree.Build(c.r, spantree.Options{})
		for i, want := range map[int][]string{1: c.operation, 2: c.engine} {
			var got []string
			for _, kv := range spans[i].Attributes {
				if kv.Key == semconv.GenAIResponseFinishReasons {
					got = kv.Value.AsStringSlice()
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s has finish reasons %q; want %q", c.name, spans[i].Name, got, want)
			}
		}
	}
}

// TestSequenceEnd: an abort ends a request that was running, not one that had ended at a
// stop string.
func TestSequenceEnd(t *testing.T) {
	const ms = int64(1e6)
	for _, c := range []struct {
		name string
		r    *request.Request
		want int64 // ns after the request's first byte
	}{
		{"last token", requesttest.Plain(), 20*ms + ms/2},
		{"stop string", requesttest.StopString(), 20*ms + ms/2},
		{"client left: its abort", requesttest.Disconnected(), 25 * ms},
		{"engine dead: the response's end", requesttest.EngineDead(), 22 * ms},
	} {
		got := spantree.Build(c.r, spantree.Options{})[2].End - c.r.Wall(c.r.Start)
		if got != c.want {
			t.Errorf("%s: llm_request ends %d ns after the request began; want %d", c.name, got, c.want)
		}
	}
}

// TestSpanNameOfNotFound: only a server that says so does not have the model.
func TestSpanNameOfNotFound(t *testing.T) {
	for _, c := range []struct{ name, errorType, want string }{
		{"model not served", "NotFoundError", "chat _other"},
		{"route not in this release", "", "chat no-such-model"},
		{"route not in this release, typed", "Not Found", "chat no-such-model"},
		{"response to go on from is gone", "invalid_request_error", "chat no-such-model"},
	} {
		r := requesttest.Rejected()
		r.HTTP.ErrorType, r.ErrorType = c.errorType, c.errorType
		if got := spantree.Build(r, spantree.Options{})[1].Name; got != c.want {
			t.Errorf("%s: Build(404 with type %q) names the operation span %q; want %q", c.name, c.errorType, got, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*request.Request)
		// want is error.type of the server, the operation and the llm_request span; "" is
		// no error.
		want [3]string
	}{
		{"answered", func(*request.Request) {}, [3]string{}},
		{"client error", func(r *request.Request) { r.HTTP.Status, r.Status, r.ErrorType = 400, 400, "BadRequestError" },
			[3]string{"", "BadRequestError", ""}},
		{"client error without a body", func(r *request.Request) { r.HTTP.Status, r.Status = 400, 400 },
			[3]string{"", "400", ""}},
		{"server error", func(r *request.Request) { r.HTTP.Status, r.Status = 503, 503 }, [3]string{"503", "503", ""}},
		{"client left", func(r *request.Request) {
			r.HTTP.Complete, r.HTTP.FinishReasons, r.Disconnected, r.ErrorType = false, nil, true, "client_disconnect"
			r.Sequences[0].Finish, r.Sequences[0].Aborted = request.FinishNone, true
		}, [3]string{"client_disconnect", "client_disconnect", "client_disconnect"}},
		{"client left after the engine had finished", func(r *request.Request) {
			r.HTTP.Complete, r.Disconnected, r.ErrorType = false, true, "client_disconnect"
		}, [3]string{"client_disconnect", "client_disconnect", ""}},
		{"server closed", func(r *request.Request) { r.HTTP.Complete, r.HTTP.ServerClosed = false, true },
			[3]string{"server_closed", "server_closed", ""}},
		{"error in the stream", func(r *request.Request) { r.ErrorType = "InternalServerError" },
			[3]string{"", "InternalServerError", ""}},
		{"engine died in a stream", func(r *request.Request) {
			r.HTTP.Complete, r.HTTP.ServerClosed, r.ErrorType, r.Sequences[0].Finish = false, true, "engine_dead", request.FinishNone
		}, [3]string{"engine_dead", "engine_dead", "engine_dead"}},
		{"engine died, an error event ended the stream", func(r *request.Request) {
			r.HTTP.FinishReasons, r.ErrorType = nil, "InternalServerError"
			r.Sequences[0].Finish, r.Sequences[0].EngineDead = request.FinishNone, true
		}, [3]string{"", "InternalServerError", "engine_dead"}},
		{"engine died after a stop string", func(r *request.Request) {
			r.HTTP.Complete, r.HTTP.ServerClosed, r.HTTP.FinishReasons, r.ErrorType = false, true, []string{"stop"}, "engine_dead"
			r.Sequences[0].Finish, r.Sequences[0].Aborted = request.FinishNone, true
		}, [3]string{"engine_dead", "engine_dead", ""}},
		{"engine error", func(r *request.Request) {
			r.HTTP.Status, r.Status, r.Sequences[0].Finish = 500, 500, request.FinishError
		},
			[3]string{"500", "500", "engine_error"}},
		{"dropped by the engine", func(r *request.Request) {
			r.HTTP.FinishReasons, r.Sequences[0].Finish = []string{"abort"}, request.FinishAbort
		}, [3]string{"", "", "abort"}},
		{"dropped by the server", func(r *request.Request) {
			r.HTTP.FinishReasons, r.HTTP.Complete, r.HTTP.ServerClosed = nil, false, true
			r.Sequences[0].Finish, r.Sequences[0].Aborted = request.FinishNone, true
		}, [3]string{"server_closed", "server_closed", "abort"}},
		{"dropped beside one that failed", func(r *request.Request) {
			r.HTTP.FinishReasons, r.HTTP.Status, r.Status, r.ErrorType = nil, 500, 500, "InternalServerError"
			r.Sequences[0].Finish, r.Sequences[0].Aborted = request.FinishNone, true
		}, [3]string{"500", "InternalServerError", "abort"}},
		{"dropped, the response's end not seen", func(r *request.Request) {
			r.HTTP.FinishReasons, r.HTTP.Complete = nil, false
			r.Sequences[0].Finish, r.Sequences[0].Aborted = request.FinishNone, true
		}, [3]string{}},
		{"stop string", func(r *request.Request) {
			r.HTTP.FinishReasons, r.Sequences[0].Finish, r.Sequences[0].Aborted = []string{"stop"}, request.FinishNone, true
		}, [3]string{}},
		{"client left after a stop string", func(r *request.Request) {
			r.HTTP.FinishReasons, r.HTTP.Complete, r.Disconnected, r.ErrorType = []string{"stop"}, false, true, "client_disconnect"
			r.Sequences[0].Finish, r.Sequences[0].Aborted = request.FinishNone, true
		}, [3]string{"client_disconnect", "client_disconnect", ""}},
	} {
		r := requesttest.Plain()
		c.edit(r)
		spans := spantree.Build(r, spantree.Options{})
		for i, want := range c.want {
			var got string
			for _, kv := range spans[i].Attributes {
				if kv.Key == semconv.ErrorType {
					got = kv.Value.AsString()
				}
			}
			if got != want {
				t.Errorf("%s: %s has error.type %q; want %q", c.name, spans[i].Name, got, want)
			}
			if failed := spans[i].Status == codes.Error; failed != (want != "") {
				t.Errorf("%s: %s has status %s; want Error: %v", c.name, spans[i].Name, spans[i].Status, want != "")
			}
		}
	}
}
