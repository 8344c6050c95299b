package request

// What one hostile client must not do to the requests of others.

import (
	"fmt"
	"testing"
)

// play is a Tracker with a clock and what it has emitted.
type play struct {
	*Tracker
	now     int64
	emitted []*Request
}

func newPlay(maxOpen int) *play {
	p := &play{now: 1e9}
	n := uint64(0)
	p.Tracker = NewTracker(Options{MaxOpen: maxOpen, Emit: func(r *Request) { p.emitted = append(p.emitted, r) },
		Random: func() uint64 { n++; return n }})
	return p
}

// ask begins a call that was read to its end.
func (p *play) ask(x Exchange) *Exchange {
	p.now += 1e6
	x.FirstByte, x.ReadEnd = p.now, p.now
	p.ExchangeBegan(&x)
	p.ExchangeRead(&x)
	return &x
}

func (p *play) add(id, external string) {
	p.now += 1e6
	p.Add(&Add{Time: p.now, PID: 1, Side: FrontEnd, Engine: "vllm-v1", ID: []byte(id), External: []byte(external), Suffixed: true, PromptTokens: 7})
}

func (p *play) finish(id string, tokens int) {
	p.now += 1e6
	p.Step(&Step{Time: p.now, PID: 1, Side: FrontEnd, TimestampS: 1, HasTimestamp: true,
		Outputs: []Output{{ID: []byte(id), Tokens: tokens, Finish: FinishStop, Cached: -1, Prompt: -1}}})
}

func (p *play) answer(x *Exchange, id string) {
	p.now += 1e6
	x.ResponseID, x.Status = id, 200
	p.ExchangeNamed(x)
	x.End, x.Complete = p.now, true
	p.ExchangeEnded(x)
}

// TestBodysNIsNotBelieved: where a server does not read "n", a body may hold any.
func TestBodysNIsNotBelieved(t *testing.T) {
	for _, n := range []int{-5, 0, 1 << 62} {
		p := newPlay(0)
		x := p.ask(Exchange{Endpoint: EndpointEmbeddings, RequestID: "a", Prompts: 3, Params: Params{N: &n}})
		var ids [][]byte
		for i := range 3 {
			id := fmt.Sprintf("embd-a-%d-0123456%d", i, i)
			p.add(id, id[:len(id)-9])
			ids = append(ids, []byte(id))
		}
		p.Abort(&Abort{Time: p.now, PID: 1, Side: FrontEnd, IDs: ids})
		x.End, x.Disconnected = p.now, true
		p.ExchangeEnded(x)
		p.Tick(p.now + 10e9)
		if len(p.emitted) != 1 || len(p.emitted[0].Sequences) != 3 {
			t.Fatalf("n = %d: %d requests emitted; want 1 with 3 sequences", n, len(p.emitted))
		}
		for i, s := range p.emitted[0].Sequences {
			if s.Index != i {
				t.Errorf("n = %d: sequence %d has index %d", n, i, s.Index)
			}
		}
	}
}

// TestRepeatedID: of two calls with one id each gets its own engine request, whoever
// came first, however long the bodies.
func TestRepeatedID(t *testing.T) {
	for _, c := range []struct {
		name     string
		endpoint Endpoint
		missing  bool
	}{
		{"chat", EndpointChat, false}, {"chat with a long body", EndpointChat, true}, {"messages", EndpointMessages, false},
	} {
		p := newPlay(0)
		a := p.ask(Exchange{Endpoint: c.endpoint, RequestID: "42", Prompts: 1, BodyMissing: c.missing, UserAgent: "a"})
		p.add("chatcmpl-42-00000001", "chatcmpl-42")
		b := p.ask(Exchange{Endpoint: c.endpoint, RequestID: "42", Prompts: 1, UserAgent: "b"})
		p.add("chatcmpl-42-00000002", "chatcmpl-42")
		p.finish("chatcmpl-42-00000002", 200)
		p.answer(b, "chatcmpl-42")
		p.finish("chatcmpl-42-00000001", 100)
		p.answer(a, "chatcmpl-42")
		want := map[string]int{"a": 100, "b": 200}
		for _, r := range p.emitted {
			if len(r.Sequences) != 1 || r.Sequences[0].CompletionTokens != want[r.HTTP.UserAgent] {
				t.Errorf("%s: request %s has %d sequences, usage %+v; want one with %d tokens", c.name, r.HTTP.UserAgent, len(r.Sequences), r.Usage, want[r.HTTP.UserAgent])
			}
		}
		if len(p.emitted) != 2 {
			t.Errorf("%s: %d requests emitted; want 2", c.name, len(p.emitted))
		}
	}
}

// TestExpectedIDGivesWay: a call that only asked for an id does not keep the engine
// request of one whose response has it.
func TestExpectedIDGivesWay(t *testing.T) {
	p := newPlay(0)
	evil := p.ask(Exchange{Endpoint: EndpointChat, RequestID: "42", Prompts: 1, UserAgent: "evil"})
	x := p.ask(Exchange{Endpoint: EndpointChat, RequestID: "42", Prompts: 1, UserAgent: "victim"})
	p.add("chatcmpl-42-00000001", "chatcmpl-42")
	p.finish("chatcmpl-42-00000001", 1)
	p.answer(x, "chatcmpl-42")
	p.add("chatcmpl-42-00000002", "chatcmpl-42")
	p.finish("chatcmpl-42-00000002", 2)
	p.answer(evil, "chatcmpl-42")
	for i, want := range []string{"victim", "evil"} {
		if r := p.emitted[i]; r.HTTP.UserAgent != want || len(r.Sequences) != 1 || r.Sequences[0].CompletionTokens != i+1 {
			t.Errorf("request %d is %s with %d sequences, usage %+v; want %s with %d tokens", i, r.HTTP.UserAgent, len(r.Sequences), r.Usage, want, i+1)
		}
	}
}

// TestHeldAnswer: a client that does not read its answers leaves room for others.
func TestHeldAnswer(t *testing.T) {
	const maxOpen = 64
	p := newPlay(maxOpen)
	n := maxOpen
	p.ask(Exchange{Endpoint: EndpointChat, RequestID: "a", Prompts: 1, Params: Params{N: &n}, UserAgent: "evil"})
	for i := range n {
		id := fmt.Sprintf("%d_chatcmpl-a-%08x", i, i)
		p.add(id, "chatcmpl-a")
		p.finish(id, 1)
	}
	p.Tick(p.now + lingerForHTTP)
	p.now += lingerForHTTP
	x := p.ask(Exchange{Endpoint: EndpointChat, Prompts: 1, UserAgent: "victim"})
	p.add("chatcmpl-v-00000001", "chatcmpl-v")
	p.finish("chatcmpl-v-00000001", 3)
	p.answer(x, "chatcmpl-v")
	last := p.emitted[len(p.emitted)-1]
	if last.HTTP.UserAgent != "victim" || len(last.Sequences) != 1 || p.Stats().RefusedSequences != 0 {
		t.Errorf("the last request is %s with %d sequences, %d refused; want the victim with its own", last.HTTP.UserAgent, len(last.Sequences), p.Stats().RefusedSequences)
	}
}

// TestHeldRequest: a request that is sent slowly holds back no engine request that others
// made by a way that is not followed.
func TestHeldRequest(t *testing.T) {
	p := newPlay(0)
	p.ExchangeBegan(&Exchange{FirstByte: p.now, Endpoint: EndpointChat, Prompts: 1})
	p.ask(Exchange{Endpoint: EndpointChat, Prompts: 1}) // may name one of them
	for i := range 100 {
		id := fmt.Sprintf("chatcmpl-%d-%08x", i, i)
		p.add(id, id[:len(id)-9])
		p.finish(id, 1)
	}
	p.Tick(p.now + lingerForHTTP)
	if len(p.emitted) != 99 {
		t.Errorf("%d requests emitted; want 99: all but one that the open call may name", len(p.emitted))
	}
}
