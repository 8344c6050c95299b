package redact

import (
	"testing"

	"github.com/tokenscope/tokenscope/probes/capture"
)

const tokenEvent = "ce\r\ndata: {\"id\":\"chatcmpl-fixture-1\",\"object\":\"chat.completion.chunk\",\"created\":1796052862,\"model\":\"tiny\",\"choices\":" +
	"[{\"index\":0,\"delta\":{\"content\":\"}\"},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}]}\n\n\r\n"

// steady is a Redactor in the middle of a stream, with the two events of a token.
func steady() (r *Redactor, sse, step *capture.Event) {
	r = New()
	head := []byte("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
	r.Event(&capture.Event{Kind: capture.KindOpen})
	r.Event(&capture.Event{Kind: capture.KindWrite, Len: len(head), Data: head})
	sse = &capture.Event{Kind: capture.KindWrite, Len: len(tokenEvent), Data: []byte(tokenEvent)}
	p := packed(outputMessage())
	step = &capture.Event{Kind: capture.KindSend, Len: len(p), Data: p}
	r.Event(sse)
	r.Event(step)
	return r, sse, step
}

func TestEventAllocatesNothingPerToken(t *testing.T) {
	r, sse, step := steady()
	if n := testing.AllocsPerRun(100, func() { r.Event(sse) }); n != 0 {
		t.Errorf("Event(SSE event) allocates %v times; want 0", n)
	}
	if n := testing.AllocsPerRun(100, func() { r.Event(step) }); n != 0 {
		t.Errorf("Event(step) allocates %v times; want 0", n)
	}
	if r.Lost() != 0 {
		t.Errorf("Lost() = %d; want 0: the benchmark must measure the path that follows", r.Lost())
	}
}

func BenchmarkEvent(b *testing.B) {
	r, sse, step := steady()
	for name, e := range map[string]*capture.Event{"sse": sse, "step": step} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(e.Data)))
			for b.Loop() {
				r.Event(e)
			}
		})
	}
}
