//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
)

const (
	chatPath       = "/v1/chat/completions"
	completionPath = "/v1/completions"
)

const (
	// maxModelLen is what the servers are started with. A prompt that is longer still fits
	// into what is captured of a body (16 KiB).
	maxModelLen = 6000
	// endless is an answer that is still going on when its client has left: about 8 s.
	endless = 5500
)

// fields are further members of a request's body.
type fields = map[string]any

func chat(text string, tokens int, more ...fields) map[string]any {
	return with(fields{
		"model": "tiny", "messages": []fields{{"role": "user", "content": text}},
		"temperature": 0, "max_tokens": tokens, "ignore_eos": true,
	}, more)
}

func completion(prompt any, tokens int, more ...fields) map[string]any {
	return with(fields{
		"model": "tiny", "prompt": prompt, "temperature": 0, "max_tokens": tokens, "ignore_eos": true,
	}, more)
}

func with(b fields, more []fields) fields {
	for _, m := range more {
		maps.Copy(b, m)
	}
	return b
}

var (
	stream      = fields{"stream": true}
	streamUsage = fields{"stream": true, "stream_options": fields{"include_usage": true}}
	two         = fields{"n": 2, "temperature": 0.8, "seed": 7}
)

const sentence = "A request waits in the queue until the scheduler finds room for it. "

// run sends the whole workload: what a client of either API can do that ends in a
// different way, most of it over one connection, then several at once.
func run(t *testing.T, address string) []*answer {
	t.Helper()
	kept := &client{address: address, keep: true}
	defer kept.close()
	var answers []*answer
	do := func(c *client, k call) *answer {
		t.Helper()
		a := c.do(k)
		check(t, a)
		answers = append(answers, a)
		return a
	}

	do(kept, call{name: "chat", path: chatPath, body: chat("Hello world", 8), sequences: 1})
	do(kept, call{name: "chat, streamed with usage, traceparent and request id", path: chatPath,
		body: chat("Hello tiny fox", 12, streamUsage), traceparent: true, requestID: "e2e-" + randomHex(4), sequences: 1})
	whole := do(kept, call{name: "completion, head and body apart", path: completionPath,
		body: completion("The quick brown", 24), split: true, sequences: 1})
	do(kept.fresh(), call{name: "completion, streamed without usage", path: completionPath,
		body: completion("The quick red fox", 10, stream), sequences: 1})
	do(kept.fresh(), call{name: "completion, streamed with usage, head and body apart", path: completionPath,
		body: completion("The quiet lake", 10, streamUsage), split: true, traceparent: true, sequences: 1})
	do(kept, call{name: "completion, n=2", path: completionPath, body: completion("Hello", 6, two), traceparent: true, sequences: 2})
	do(kept.fresh(), call{name: "chat, n=2, streamed", path: chatPath, body: chat("Hi", 5, two, streamUsage), sequences: 2})
	do(kept, call{name: "completion, two prompts", path: completionPath,
		body: completion([]string{"Hello world", "The slow bear walks"}, 6), sequences: 2})
	do(kept, call{name: "completion, one token", path: completionPath, body: completion("tests", 1), sequences: 1})

	stop := fields{"stop": []string{stopString(t, whole.texts[0])}}
	do(kept, call{name: "completion, stop string", path: completionPath, body: completion("The quick brown", 24, stop), sequences: 1})
	do(kept, call{name: "completion, stop string, streamed", path: completionPath,
		body: completion("The quick brown", 24, stop, streamUsage), traceparent: true, sequences: 1})
	do(kept, call{name: "completion, logprobs", path: completionPath, body: completion("Hello fox", 4, fields{"logprobs": 2}), sequences: 1})

	answers = append(answers, atOnce(t, kept)...)

	do(kept.fresh(), call{name: "chat, client leaves after 3 events", path: chatPath,
		body: chat("Hello disconnect", endless, stream), stopAfter: 3, traceparent: true, sequences: 1})
	do(kept.fresh(), call{name: "completion, client leaves after 3 events", path: completionPath,
		body: completion("Hello disconnect", endless, stream), stopAfter: 3, sequences: 1})

	do(kept, call{name: "error: bad JSON", path: chatPath, raw: `{"model": "tiny", "messages": [`, traceparent: true, status: 400})
	do(kept, call{name: "error: unknown model", path: chatPath, body: chat("x", 4, fields{"model": "nope"}), traceparent: true, status: 404})
	do(kept, call{name: "error: prompt too long", path: completionPath, body: completion(strings.Repeat("x y ", maxModelLen/2+100), 4), traceparent: true, status: 400})
	do(kept, call{name: "error: no such route", method: "GET", path: "/nope", traceparent: true, status: 404})
	return answers
}

// atOnce sends six streams and one long prompt at the same time.
func atOnce(t *testing.T, c *client) []*answer {
	t.Helper()
	calls := []call{{name: "at once, long prompt", path: completionPath,
		body: completion(strings.Repeat("ab cd ", 115), 16, streamUsage), sequences: 1}}
	for i := range 6 {
		k := call{name: fmt.Sprintf("at once, %d", i), path: completionPath, traceparent: i%3 == 0, sequences: 1}
		text := strings.Repeat(sentence, 1+i)
		if k.body = completion(text, 6+9*i, streamUsage); i%2 == 1 {
			k.path, k.body = chatPath, chat(text, 6+9*i, streamUsage)
		}
		calls = append(calls, k)
	}
	answers := make([]*answer, len(calls))
	var wg sync.WaitGroup
	for i, k := range calls {
		wg.Go(func() { answers[i] = c.fresh().do(k) })
	}
	wg.Wait()
	for _, a := range answers {
		check(t, a)
	}
	return answers
}

// check fails the test if the server did not answer as the call says: then nothing that
// is measured of it means anything.
func check(t *testing.T, a *answer) {
	t.Helper()
	want := a.call.status
	if want == 0 {
		want = 200
	}
	if a.err != nil || a.status != want {
		t.Fatalf("%s: status %d, error %v; want status %d", a.name, a.status, a.err, want)
	}
	if a.call.status == 0 && a.id == "" {
		t.Fatalf("%s: the answer has no id", a.name)
	}
	if whole := a.status == 200 && a.stopAfter == 0 && !a.engineDies; whole && len(a.finish) != a.sequences {
		t.Fatalf("%s: finish reasons %v; want one for each of %d choices", a.name, a.finish, a.sequences)
	}
}

// stopString finds a piece of text that occurs late in an answer for the first time.
func stopString(t *testing.T, text string) string {
	t.Helper()
	for from := len(text) / 3; from < len(text)-4; from++ {
		piece := text[from : from+3]
		if !strings.Contains(piece, " ") && !strings.Contains(text[:from+2], piece) {
			return piece
		}
	}
	t.Fatalf("no stop string found in %q", text)
	return ""
}
