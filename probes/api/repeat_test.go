package api

import (
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/instrument/request"
)

// An event as vLLM 0.32.0 sends it for a token, and one that differs in its text.
const (
	repeatHead = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\""
	repeatTail = "\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n"
	repeatOne  = repeatHead + "one" + repeatTail
)

// streamed reads a stream's body in pieces of at most size bytes, all at one time.
func streamed(route string, n int, body string, size int) (*request.Exchange, *responseBody) {
	e, _ := lookup([]byte(route))
	x := &request.Exchange{Endpoint: e.kind, Route: e.route, SSE: true, Prompts: 1}
	x.Params.N = &n
	b := new(responseBody)
	b.reset(x)
	b.form = formSSE
	for p := []byte(body); len(p) > 0; {
		k := min(size, len(p))
		b.feed(1, p[:k])
		p = p[k:]
	}
	return x, b
}

func TestRepeatMatch(t *testing.T) {
	// The first event says the id, so that only the second one says nothing new.
	_, b := streamed("/v1/chat/completions", 1, repeatOne+repeatOne, 1<<20)
	for _, tt := range []struct {
		name, event string
		want        bool
	}{
		{"the same", repeatOne, true},
		{"another text", repeatHead + "two words" + repeatTail, true},
		{"no text", repeatHead + repeatTail, true},
		{"escaped quote and backslash", repeatHead + `\"\\` + repeatTail, true},
		{"text that looks like keys", repeatHead + `\"},\"finish_reason\":\"stop\"` + repeatTail, true},
		{"text of several bytes a character", repeatHead + "日本" + repeatTail, true},
		{"finish reason", repeatHead + `x"},"logprobs":null,"finish_reason":"stop"}]}` + "\n\n", false},
		{"usage behind", repeatHead + `x"},"logprobs":null,"finish_reason":null}],"usage":{}}` + "\n\n", false},
		{"another choice", strings.Replace(repeatOne, `"index":0`, `"index":1`, 1), false},
		{"a blank more", strings.Replace(repeatOne, `"index":`, `"index": `, 1), false},
		{"text that is not closed", strings.TrimSuffix(repeatOne, repeatTail), false},
		{"quote is escaped away", repeatHead + `x\` + repeatTail, false},
		{"line ends in the text", repeatHead + "a\nb" + repeatTail, false},
		{"line ends behind a backslash", repeatHead + "a\\\nb" + repeatTail, false},
		{"text that is too long", repeatHead + strings.Repeat("x", maxText) + repeatTail, false},
		{"empty line has not come", strings.TrimSuffix(repeatOne, "\n"), false},
		{"nothing", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := 0
			if tt.want {
				want = len(tt.event)
			}
			// What comes behind does not matter.
			for _, behind := range []string{"", "data: [DONE]\n\n"} {
				if n := b.repeat.match([]byte(tt.event + behind)); n != want && (tt.event != "" || behind == "") {
					t.Errorf("match(%q + %q) = %d; want %d", tt.event, behind, n, want)
				}
			}
		})
	}
}

func TestRepeatLearns(t *testing.T) {
	for _, tt := range []struct {
		name, route, body string
		want              bool
	}{
		{"event that says nothing", "/v1/chat/completions", repeatOne + repeatOne, true},
		{"first event, which says the id", "/v1/chat/completions", repeatOne, false},
		{"before the first output", "/v1/chat/completions", strings.Repeat(repeatHead+repeatTail, 3), false},
		{"finish reason", "/v1/completions", strings.Repeat(`data: {"choices":[{"text":"a","finish_reason":"stop"}]}`+"\n\n", 2), false},
		{"usage so far", "/v1/completions", strings.Repeat(`data: {"choices":[{"text":"a"}],"usage":{"completion_tokens":1}}`+"\n\n", 2), false},
		{"error", "/v1/completions", strings.Repeat(`data: {"choices":[{"text":"a"}],"error":{"type":"e"}}`+"\n\n", 2), false},
		{"old error", "/v1/completions", strings.Repeat(`data: {"choices":[{"text":"a"}],"object":"error"}`+"\n\n", 2), false},
		{"text in two lines", "/v1/completions", strings.Repeat("data: {\"choices\":[{\"text\":\"a\ndata: b\"}]}\n\n", 2), false},
		{"event of two lines", "/v1/completions", strings.Repeat("event: x\ndata: {\"choices\":[{\"text\":\"a\"}]}\n\n", 2), true},
		{"no JSON", "/v1/completions", `data: {"choices":[{"text":"a"}]}` + "\n\n" + "data: [DONE]\n\n", true},
		{"long event", "/v1/completions", strings.Repeat(`data: {"x":"`+strings.Repeat("x", maxRepeat)+`","choices":[{"text":"a"}]}`+"\n\n", 2), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, b := streamed(tt.route, 1, tt.body, 1<<20)
			if got := len(b.repeat.event) > 0; got != tt.want {
				t.Errorf("after %q the event is known: %v; want %v", tt.body, got, tt.want)
			}
			if _, b := streamed(tt.route, 1, tt.body, 7); len(b.repeat.event) > 0 {
				t.Errorf("after %q in pieces of 7 the event %q is known; want none, it never came whole", tt.body, b.repeat.event)
			}
			if b.reset(b.ex); len(b.repeat.event) > 0 || strings.Contains(string(b.repeat.event[:cap(b.repeat.event)]), "data") {
				t.Errorf("reset keeps the event")
			}
		})
	}
}

// A recording may begin at time 0, which is no time of a first token.
func TestRepeatBeforeTheFirstTime(t *testing.T) {
	x, b := streamed("/v1/chat/completions", 1, "", 1)
	for _, at := range []int64{0, 0, 0, 5, 6} {
		b.feed(at, []byte(repeatOne))
	}
	if x.FirstToken != 5 || x.Events != 5 {
		t.Errorf("first token at %d of %d events; want 5, of 5", x.FirstToken, x.Events)
	}
}

// A text that came in pieces is in the scanner's memory and not in the event, whatever
// the capacities say.
func TestRepeatForeignText(t *testing.T) {
	var r repeat
	event := append(make([]byte, 0, 612), repeatOne...)
	text := append(make([]byte, 0, cap(event)-len(repeatHead)), "one"...)
	if r.learn(event, text); len(r.event) != 0 {
		t.Errorf("learn took %q for the text of another slice; want nothing learned", r.event)
	}
	if r.learn(event, event[len(repeatHead):len(repeatHead)+3]); r.match([]byte(repeatOne)) != len(repeatOne) {
		t.Errorf("match(%q) = 0 after learning it", repeatOne)
	}
}

// FuzzRepeat compares streams in which events come whole, so that repetitions are
// recognised, with the same streams byte by byte, which the scanner reads all of.
func FuzzRepeat(f *testing.F) {
	f.Add([]byte(repeatHead), []byte("one"), []byte(`t\"wo`), []byte(repeatTail), uint8(0))
	f.Add([]byte(repeatHead), []byte("a"), []byte("\n\ndata: {}\n\n"), []byte(repeatTail), uint8(0))
	f.Add([]byte(`data: {"choices":[{"text":"`), []byte("a"), []byte(`","finish_reason":"stop`), []byte("\"}]}\r\n\r\n"), uint8(1))
	f.Add([]byte("event: content_block_delta\ndata: {\"delta\":{\"text\":\""), []byte("a"), []byte(`\`), []byte("\"}}\n\n"), uint8(3))
	f.Add([]byte(`data: {"text":"`), []byte("a"), []byte("b"), []byte("\",\"meta_info\":{\"id\":\"g\",\"completion_tokens\":3,\"finish_reason\":null}}\n\n"), uint8(13))
	f.Fuzz(func(t *testing.T, head, one, two, tail []byte, which uint8) {
		route := endpoints[int(which)%len(endpoints)].route
		var b strings.Builder
		for _, text := range [][]byte{one, two, one, one, two, nil, two} {
			for _, p := range [][]byte{head, text, tail} {
				b.Write(p)
			}
		}
		for _, n := range []int{1, 2} {
			whole, _ := streamed(route, n, b.String(), 1<<20)
			bytewise, _ := streamed(route, n, b.String(), 1)
			if answer(whole) != answer(bytewise) {
				t.Fatalf("%s, n=%d, %q: whole %q; byte by byte %q", route, n, b.String(), answer(whole), answer(bytewise))
			}
		}
	})
}
