package api

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/probes/capture"
)

// sink keeps what it is told, and checks the order of the calls.
type sink struct {
	ended []*request.Exchange
	stage map[*request.Exchange]int
	bad   []string
}

func (s *sink) call(x *request.Exchange, stage int) {
	if s.stage == nil {
		s.stage = map[*request.Exchange]int{}
	}
	if was := s.stage[x]; was >= stage || (was == 0) != (stage == 1) {
		s.bad = append(s.bad, fmt.Sprintf("call %d after %d", stage, was))
	}
	s.stage[x] = stage
}

func (s *sink) ExchangeBegan(x *request.Exchange) { s.call(x, 1) }
func (s *sink) ExchangeRead(x *request.Exchange)  { s.call(x, 2) }
func (s *sink) ExchangeNamed(x *request.Exchange) {
	s.call(x, 3)
	if x.ResponseID == "" {
		s.bad = append(s.bad, "named without an id")
	}
}
func (s *sink) ExchangeEnded(x *request.Exchange) {
	s.call(x, 4)
	s.ended = append(s.ended, x)
}

// check fails the test when a promise was broken or an exchange never ended.
func (s *sink) check(t *testing.T) {
	t.Helper()
	for _, stage := range s.stage {
		if stage != 4 {
			s.bad = append(s.bad, fmt.Sprintf("an exchange was left after call %d", stage))
		}
	}
	if s.bad != nil {
		t.Fatalf("calls to the sink: %v", s.bad)
	}
}

// line is a line of a recorded connection.
type line struct {
	Op   string `json:"op"`
	T    int64  `json:"t"`
	Data string `json:"data"`
}

func record(t testing.TB, name string) []line {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []line
	for d := json.NewDecoder(bufio.NewReader(f)); d.More(); {
		var l line
		if err := d.Decode(&l); err != nil {
			t.Fatalf("decode %s: %v", name, err)
		}
		out = append(out, l)
	}
	return out
}

// events makes Events of a connection's lines, numbered as a backend numbers them.
func events(conn uint64, lines []line) []capture.Event {
	var out []capture.Event
	seq := map[capture.Kind]uint64{}
	for _, l := range lines {
		e := capture.Event{Time: l.T, PID: 7, Conn: conn, Data: []byte(l.Data), Len: len(l.Data)}
		switch l.Op {
		case "read":
			e.Kind = capture.KindRead
		case "write":
			e.Kind = capture.KindWrite
		case "close":
			e.Kind, e.Peer = capture.KindClose, true
		}
		seq[e.Kind]++
		e.Seq = seq[e.Kind]
		out = append(out, e)
	}
	return out
}

func play(t *testing.T, evs []capture.Event) *sink {
	t.Helper()
	s := &sink{}
	srv := NewServer(s)
	var last int64
	for i := range evs {
		last = evs[i].Time
		srv.Handle(&evs[i])
	}
	srv.Flush(last + 1)
	if st := srv.Stats(); st.Conns != 0 || srv.budget.Free != maxHeads {
		t.Fatalf("after Flush: %d connections, %d bytes of heads; want none", st.Conns, maxHeads-srv.budget.Free)
	}
	s.check(t)
	return s
}

// digest writes down an Exchange; times as numbers of the recorded lines, from 1.
func digest(x *request.Exchange, lines []line) string {
	at := func(t int64) int {
		for i, l := range lines {
			if l.T == t {
				return i + 1
			}
		}
		return 0
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s id=%s status=%d model=%s/%s prompts=%d", x.Route, x.ResponseID, x.Status, x.Model, x.ResponseModel, x.Prompts)
	if x.Stream != nil && *x.Stream {
		fmt.Fprintf(&b, " stream=%v", *x.Stream)
	}
	p := &x.Params
	if p.N != nil {
		fmt.Fprintf(&b, " n=%d", *p.N)
	}
	if p.MaxTokens != nil {
		fmt.Fprintf(&b, " max=%d", *p.MaxTokens)
	}
	if p.Temperature != nil {
		fmt.Fprintf(&b, " temperature=%v", *p.Temperature)
	}
	if p.Seed != nil {
		fmt.Fprintf(&b, " seed=%d", *p.Seed)
	}
	if x.Usage != nil {
		fmt.Fprintf(&b, " usage=%d/%d/%d/%d", x.Usage.Prompt, x.Usage.Completion, x.Usage.Cached, x.Usage.Reasoning)
	}
	if x.FinishReasons != nil {
		fmt.Fprintf(&b, " finish=%s", strings.Join(x.FinishReasons, ","))
	}
	if x.ErrorType != "" {
		fmt.Fprintf(&b, " error=%s", x.ErrorType)
	}
	if x.SSE {
		fmt.Fprintf(&b, " events=%d", x.Events)
	}
	fmt.Fprintf(&b, " times=%d,%d,%d,%d,%d", at(x.FirstByte), at(x.ReadEnd), at(x.FirstResponseByte), at(x.FirstToken), at(x.End))
	for _, f := range []struct {
		on   bool
		name string
	}{{x.Complete, "complete"}, {x.Disconnected, "disconnected"}, {x.ServerClosed, "server-closed"},
		{x.RequestGap, "request-gap"}, {x.ResponseGap, "response-gap"}, {x.ResponseCut, "response-cut"}, {x.BodyMissing, "body-missing"}} {
		if f.on {
			b.WriteString(" " + f.name)
		}
	}
	return b.String()
}

// recorded are the recorded connections. The numbers were compared with what the client
// noted of each request.
var recorded = []struct{ name, want string }{
	{"vllm-0.32.0-chat-stream", "/v1/chat/completions id=chatcmpl-fixture-1 status=200 model=tiny/tiny prompts=1 stream=true max=12 temperature=0 usage=18/12/-1/-1 finish=length events=14 times=1,1,2,4,18 complete"},
	{"vllm-0.32.0-completion", "/v1/completions id=cmpl-97c8551f2acd711a status=200 model=tiny/tiny prompts=1 max=24 temperature=0 usage=3/24/-1/-1 finish=length times=1,2,3,0,3 complete"},
	{"vllm-0.32.0-two-prompts", "/v1/completions id=cmpl-9055c31b4ce810ea status=200 model=tiny/tiny prompts=2 max=6 temperature=0 usage=7/12/-1/-1 finish=length,length times=1,1,2,0,3 complete"},
	{"vllm-0.32.0-chat-n2-stream", "/v1/chat/completions id=chatcmpl-ac2c6d4f26e25c03 status=200 model=tiny/tiny prompts=1 stream=true n=2 max=5 temperature=0.8 seed=3 usage=18/10/-1/-1 finish=length,length events=13 times=1,1,2,5,17 complete"},
	{"vllm-0.32.0-responses", "/v1/responses id=resp_b9765618030aff0a status=200 model=tiny/tiny prompts=1 max=8 temperature=0 usage=17/8/0/0 times=1,1,2,0,3 complete"},
	{"vllm-0.32.0-responses-stream", "/v1/responses id=resp_996978014c2996cb status=200 model=tiny/tiny prompts=1 stream=true max=8 temperature=0 usage=18/8/0/0 events=14 times=1,1,2,5,10 complete"},
	{"vllm-0.32.0-messages", "/v1/messages id=chatcmpl-aee1bfec45a8344e status=200 model=tiny/tiny prompts=1 max=8 temperature=0 usage=17/8/-1/-1 finish=max_tokens times=1,1,2,0,3 complete"},
	{"vllm-0.32.0-messages-stream", "/v1/messages id=chatcmpl-86152b6a4711400f status=200 model=tiny/tiny prompts=1 stream=true max=8 temperature=0 usage=18/8/-1/-1 finish=max_tokens events=13 times=1,1,2,5,16 complete"},
	{"vllm-0.32.0-wrong-model", "/v1/chat/completions id= status=404 model=nope/ prompts=1 max=4 temperature=0 error=NotFoundError times=1,1,2,0,3 complete"},
	{"vllm-0.32.0-embeddings", "/v1/embeddings id=embd-fixture-emb status=200 model=tiny/tiny prompts=2 usage=11/0/-1/-1 times=1,1,2,0,2 complete"},
	{"vllm-0.32.0-rerank", "/v2/rerank id=score-a991ca853aba6993 status=200 model=tiny/tiny prompts=0 usage=13/-1/-1/-1 times=1,1,2,0,2 complete"},
	{"vllm-0.33.0-rust-chat-stream", "/v1/chat/completions id=chatcmpl-fixture-1 status=200 model=tiny/tiny prompts=1 stream=true max=12 temperature=0 usage=18/12/-1/0 finish=length events=15 times=1,1,2,3,13 complete"},
	{"vllm-0.10.2-completion-stream", "/v1/completions id=cmpl-ef55bc31c8444c0da6541462ce977724 status=200 model=tiny/tiny prompts=1 stream=true max=10 temperature=0 finish=length events=10 times=1,1,2,2,9 complete"},
	{"vllm-0.8.5-wrong-model", "/v1/chat/completions id= status=404 model=nope/ prompts=1 max=4 temperature=0 error=NotFoundError times=1,1,2,0,2 complete"},
	{"sglang-0.5.23-generate", "/generate id=cf54afcaa5e34073a7112fbbc999566d status=200 model=/ prompts=1 stream=true max=8 temperature=0 usage=14/8/13/0 finish=length events=8 times=1,1,2,3,12 complete"},
}

func TestRecorded(t *testing.T) {
	for _, tt := range recorded {
		t.Run(tt.name, func(t *testing.T) {
			lines := record(t, tt.name)
			s := play(t, events(1, lines))
			if len(s.ended) != 1 {
				t.Fatalf("exchanges = %d; want 1", len(s.ended))
			}
			if got := digest(s.ended[0], lines); got != tt.want {
				t.Errorf("exchange =\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestRecordedHeaders(t *testing.T) {
	x := play(t, events(1, record(t, "vllm-0.32.0-chat-stream"))).ended[0]
	got := []string{x.Host, x.UserAgent, x.Traceparent, x.RequestID, x.Proto, x.Method, x.Path}
	want := []string{"127.0.0.1", "fixture/1", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "fixture-1", "1.1", "POST", "/v1/chat/completions"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("headers = %q; want %q", got, want)
	}
}

// pieces splits events' bytes; the pieces keep their time, so nothing may change.
func pieces(evs []capture.Event, size func() int) []capture.Event {
	var out []capture.Event
	seq := map[capture.Kind]uint64{}
	for _, e := range evs {
		if e.Kind == capture.KindClose {
			out = append(out, e)
		}
		for rest := e.Data; len(rest) > 0; {
			n := min(size(), len(rest))
			p := e
			p.Data, p.Len = rest[:n], n
			seq[e.Kind]++
			p.Seq = seq[e.Kind]
			out = append(out, p)
			rest = rest[n:]
		}
	}
	return out
}

func TestRecordedSplits(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, tt := range recorded {
		lines := record(t, tt.name)
		check := func(how string, size func() int) {
			t.Helper()
			s := play(t, pieces(events(1, lines), size))
			if len(s.ended) != 1 || digest(s.ended[0], lines) != tt.want {
				t.Fatalf("%s, %s: %d exchanges\n%s\nwant\n%s", tt.name, how, len(s.ended), digest(s.ended[0], lines), tt.want)
			}
		}
		check("byte by byte", func() int { return 1 })
		for i := range 20 {
			check(fmt.Sprint("random split ", i), func() int { return 1 + rnd.IntN(1+10*i) })
		}
	}
}
