package redact

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// The canary has letters that stand next to each other in no word of ours, so that
// even three bytes of it are found; and a number that is no number of ours.
const (
	canary      = "QZKWVPJYGX"
	canaryToken = "717171"
)

// canaries are the ways in which it could be there.
func canaries() []string {
	escaped := ""
	for _, r := range canary {
		escaped += fmt.Sprintf(`\u%04x`, r)
	}
	return []string{canary, escaped, base64.StdEncoding.EncodeToString([]byte(canary)), canaryToken}
}

// fragments are what must not be in any output byte.
func fragments() []string {
	var out []string
	for i := range len(canary) - 2 {
		out = append(out, canary[i:i+3])
	}
	all := canaries()
	out = append(out, all[1][:8], all[1][12:20], all[2][:6], all[2][4:10], canaryToken)
	return append(out, "\x0a\xf1\x73") // 717171 in msgpack
}

// conversation is an exchange with the canary everywhere that is not to stay.
func conversation(c string) []*capture.Event {
	ask := func(path, body string) []byte {
		return fmt.Appendf(nil, "POST %s?key=%s HTTP/1.1\r\nHost: %s:1\r\nAuthorization: Bearer %s\r\nCookie: a=%s\r\n"+
			"X-%s: 1\r\nX-Api-Key: %s\r\nbaggage: a=%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			path, c, canary, c, c, canary, c, c, len(body), body)
	}
	answer := func(status, body string) []byte {
		return fmt.Appendf(nil, "HTTP/1.1 %s\r\ncontent-type: application/json\r\nset-cookie: %s\r\ncontent-length: %d\r\n\r\n%s", status, c, len(body), body)
	}
	chunk := func(data string) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(data), data) }

	request := `{"model":"m","messages":[{"role":"system","content":"@"},{"role":"user","content":[{"type":"text","text":"a\n@"},` +
		`{"type":"image_url","image_url":{"url":"data:image/png;base64,@"}}],"name":"@"},{"role":"@","tool_calls":[{"id":"@","function":{"name":"@","arguments":"{\"@\":1}"}}]}],` +
		`"tools":[{"type":"function","function":{"name":"@","description":"@","parameters":{"type":"object","properties":{"@":{"enum":["@"],"model":"@"}}}}}],` +
		`"stop":["@"],"stop_token_ids":[717171],"logit_bias":{"717171":1},"prompt":[717171,[717171]],"user":"@","metadata":{"@":"@","id":"@"},` +
		`"chat_template_kwargs":{"@":"@"},"response_format":{"type":"json_schema","json_schema":{"name":"@"}},"@":{"@":717171},"tool_choice":"@","n":2}`
	response := `{"id":"chatcmpl-1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"@","reasoning":"@","tool_calls":[{"function":{"arguments":"@"}}]},` +
		`"logprobs":{"content":[{"token":"@","logprob":-717171,"bytes":[717171]}],"top_logprobs":[{"@":-1}]},"finish_reason":"stop","stop_reason":"@","token_ids":[717171]},` +
		`{"index":1,"stop_reason":717171}],"usage":{"prompt_tokens":17},"@":"@","data":[{"embedding":"@"},{"embedding":[0.717171]}]}`
	failure := `{"error":{"message":"no @","type":"BadRequestError","param":"@","code":400},"detail":[{"type":"missing","loc":["body","@"],"input":"@"}]}`
	stream := []string{
		"data: {\"id\":\"cmpl-1\",\"choices\":[{\"index\":0,\"text\":\"@\",\"stop_reason\":\"@\",\"delta\":{\"content\":\"@\"}}]}\n\n",
		"event: @\ndata: {\"type\":\"@\",\"delta\":\"@\"}\n\n: @\nid: @\n@: @\ndata: @\n\n", "data: {\"error\":{\"message\":\"@\"}}\n\ndata: [DONE]\n\n",
	}
	fill := func(text string) string { return strings.ReplaceAll(text, "@", c) }

	var events []*capture.Event
	add := func(e capture.Event) {
		e.PID, e.Len = 1, len(e.Data)
		events = append(events, &e)
	}
	argv := fill("/home/@/vllm\x00serve\x00/models/@\x00--api-key\x00@\x00--port\x008000\x00--chat-template=@\x00@\x00--@\x00")
	add(capture.Event{Kind: capture.KindExec, Data: []byte(argv)})
	add(capture.Event{Kind: capture.KindOpen, Conn: 9})
	for range 2 {
		add(capture.Event{Kind: capture.KindRead, Conn: 9, Data: ask("/v1/chat/completions", fill(request))})
		add(capture.Event{Kind: capture.KindWrite, Conn: 9, Data: answer("200 OK", fill(response))})
		add(capture.Event{Kind: capture.KindRead, Conn: 9, Data: ask("/v1/completions", fill(request))})
		add(capture.Event{Kind: capture.KindWrite, Conn: 9, Data: answer("400 Bad Request", fill(failure))})
		add(capture.Event{Kind: capture.KindRead, Conn: 9, Data: ask("/v1/completions", fill(request)[:len(fill(request))-9])})
		add(capture.Event{Kind: capture.KindWrite, Conn: 9, Data: fmt.Appendf(nil, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nwarning: %s\r\ntransfer-encoding: chunked\r\n\r\n", c)})
		for _, s := range stream {
			add(capture.Event{Kind: capture.KindWrite, Conn: 9, Data: chunk(fill(s))})
		}
		add(capture.Event{Kind: capture.KindWrite, Conn: 9, Data: fmt.Appendf(nil, "0\r\nX-%s: %s\r\n\r\n", canary, c)})
		add(capture.Event{Kind: capture.KindWrite, Conn: 9, Data: answer("200 OK", c)})
		for _, p := range [][]byte{{0, 0}, {0}, packed(with(addMessage(), c)), []byte(c)} {
			add(capture.Event{Kind: capture.KindSend, Conn: 8, Data: p, More: len(p) != len(c)})
		}
		for _, p := range [][]byte{packed(with(outputMessage(), c)), []byte(c)} {
			add(capture.Event{Kind: capture.KindRecv, Conn: 7, Data: p, More: len(p) != len(c)})
		}
		add(capture.Event{Kind: capture.KindRecv, Conn: 7, Data: []byte("\x80\x04\x95" + c)})
		add(capture.Event{Kind: capture.KindRecv, Conn: 7, Data: packed(m("addresses", []any{c}, c, c))})
	}
	return events
}

// with replaces the placeholders of a message by the canary.
func with(msg any, c string) any {
	switch v := msg.(type) {
	case string:
		return strings.ReplaceAll(v, secret, c)
	case []byte:
		return bytes.ReplaceAll(v, []byte(secret), []byte(c))
	case int:
		if v == 7171 {
			return 717171
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = with(v[i], c)
		}
		return out
	}
	return msg
}

func TestCanary(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	bad := fragments()
	check := func(t *testing.T, in, out *capture.Event) {
		t.Helper()
		if len(out.Data) != len(in.Data) {
			t.Fatalf("Event(%q) has %d bytes; want %d", in.Data, len(out.Data), len(in.Data))
		}
		for _, f := range bad {
			if bytes.Contains(out.Data, []byte(f)) {
				t.Fatalf("Event(%q) =\n%q; has %q", in.Data, out.Data, f)
			}
		}
	}
	for _, c := range canaries() {
		t.Run(c, func(t *testing.T) {
			events := conversation(c)
			t.Run("whole", func(t *testing.T) {
				r := New()
				for _, e := range events {
					check(t, e, r.Event(e))
				}
				// The answers that are no JSON are the only thing that cannot be followed;
				// their length is known, so no track is lost.
				if r.Lost() != 0 {
					t.Errorf("Lost() = %d; want 0", r.Lost())
				}
			})
			for how, name := range []string{"split", "bytes lost", "cut", "events lost"} {
				t.Run(name, func(t *testing.T) {
					for range 150 {
						r := New()
						seqs := map[string]uint64{}
						for _, e := range events {
							for _, part := range damage(rnd, e, how) {
								key := fmt.Sprint(e.Conn, e.Kind)
								seqs[key]++
								if part == nil {
									continue
								}
								part.Seq = seqs[key]
								check(t, part, r.Event(part))
							}
						}
					}
				})
			}
			t.Run("byte by byte", func(t *testing.T) {
				r := New()
				for _, e := range events {
					if e.Kind != capture.KindRead && e.Kind != capture.KindWrite {
						check(t, e, r.Event(e))
						continue
					}
					var all []byte
					for i := range e.Data {
						all = append(all, r.Event(clone(e, e.Data[i:i+1], 1, 0)).Data...)
					}
					check(t, e, clone(e, all, len(all), 0))
				}
			})
		})
	}
}

func FuzzCanary(f *testing.F) {
	f.Add("a prompt", uint64(1), 0)
	f.Add("\"},\r\n\r\nHTTP/1.1 200 OK\r\n\r\n\n\n", uint64(2), 1)
	f.Add("\\u0041\x00\xff", uint64(3), 3)
	f.Fuzz(func(t *testing.T, text string, seed uint64, how int) {
		// Content that poses as anything: in a JSON string it is escaped first.
		quoted := strings.NewReplacer("\\", "", "\"", "", "\r", "", "\n", "", "@", "").Replace(text)
		for _, b := range []byte(quoted) {
			if b < ' ' {
				return
			}
		}
		rnd := rand.New(rand.NewPCG(seed, 9))
		r := New()
		seqs := map[string]uint64{}
		for _, e := range conversation(canary + quoted) {
			for _, part := range damage(rnd, e, how&3) {
				key := fmt.Sprint(e.Conn, e.Kind)
				seqs[key]++
				if part == nil {
					continue
				}
				part.Seq = seqs[key]
				out := r.Event(part)
				if len(out.Data) != len(part.Data) {
					t.Fatalf("Event(%q) has %d bytes", part.Data, len(out.Data))
				}
				for i := range len(canary) - 2 {
					if bytes.Contains(out.Data, []byte(canary[i:i+3])) {
						t.Fatalf("Event(%q) = %q; has the canary", part.Data, out.Data)
					}
				}
			}
		}
	})
}

// Any bytes, of any kind, in any order: no panic, the same lengths, the original as it was.
func FuzzEvent(f *testing.F) {
	f.Add([]byte("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n{\"n\":"), []byte("1}"), uint8(9), 0, 0)
	f.Add([]byte("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab"), []byte("cde\r\n0\r\n\r\n"), uint8(10), 3, 2)
	f.Add([]byte("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {"), []byte("}\n\n"), uint8(10), -3, 200)
	f.Add(packed(addMessage()), packed(outputMessage()), uint8(6), 1, 1)
	f.Add([]byte("vllm\x00--port\x001"), []byte("x"), uint8(4), 1, 1)
	f.Fuzz(func(t *testing.T, first, second []byte, kind uint8, missing, tail int) {
		r := New()
		r.Event(&capture.Event{Kind: capture.KindOpen, PID: 1, Conn: 1})
		for _, data := range [][]byte{first, second, first} {
			e := &capture.Event{Kind: capture.Kind(kind % 16), PID: 1, Conn: 1, Len: len(data) + missing, Data: data, Tail: tail}
			before := bytes.Clone(data)
			out := r.Event(e)
			if len(out.Data) != len(data) || !bytes.Equal(data, before) {
				t.Fatalf("Event(%q) = %q; want the same length and the original untouched", before, out.Data)
			}
		}
	})
}
