package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// packed encodes a value as msgpack; maps keep the order of a []any{key, value, …}
// that begins with mapMark.
type mapMark struct{}

func packed(v any) []byte { return appendPacked(nil, v) }

func appendPacked(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return msgp.AppendNil(b)
	case bool:
		return msgp.AppendBool(b, v)
	case int:
		return msgp.AppendInt(b, v)
	case float64:
		return msgp.AppendFloat64(b, v)
	case string:
		return msgp.AppendString(b, v)
	case []byte:
		return msgp.AppendBytes(b, v)
	case *msgp.RawExtension:
		b, err := msgp.AppendExtension(b, v)
		if err != nil {
			panic(err)
		}
		return b
	case []any:
		if len(v) > 0 && v[0] == (mapMark{}) {
			b = msgp.AppendMapHeader(b, uint32(len(v)/2))
			v = v[1:]
		} else {
			b = msgp.AppendArrayHeader(b, uint32(len(v)))
		}
		for _, e := range v {
			b = appendPacked(b, e)
		}
		return b
	}
	panic(fmt.Sprintf("packed(%T)", v))
}

func m(kv ...any) []any { return append([]any{mapMark{}}, kv...) }

// shape prints a message with all its values, in JSON's words.
func shape(t *testing.T, b []byte) string {
	t.Helper()
	var out bytes.Buffer
	rest, err := msgp.UnmarshalAsJSON(&out, b)
	if err != nil || len(rest) > 0 {
		t.Fatalf("decode % x: %v, %d bytes left", b, err, len(rest))
	}
	var compact bytes.Buffer
	if json.Compact(&compact, out.Bytes()) != nil {
		return out.String()
	}
	return compact.String()
}

const secret = "canary71"

// An EngineCoreRequest of 0.32.0.
func addMessage() []any {
	return []any{
		"0_chatcmpl-r1-0a1b2c3d", []any{71, 7171, 717171}, []any{m("identifier", secret, "data", []byte(secret))},
		m("n", 2, "temperature", 0.5, "stop", []any{secret}, "_all_stop_token_ids", []any{7171}, "max_tokens", 64,
			"structured_outputs", m("regex", secret), "extra_args", m("kv_transfer_params", m("n", 7171)), "new "+secret, 7171, "logit_bias", m("n", 7171)),
		nil, 1700000000.25,
		[]any{"adapter", 3, "/private/" + secret, secret}, secret, nil, nil, true, 0, 1, -5,
		m("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "cookie", secret),
		false, "chatcmpl-r1", nil, m("chat_template_kwargs", m("n", 7171)), false, secret, nil,
	}
}

func outputMessage() []any {
	output := []any{
		"chatcmpl-r1-0a1b2c3d", []any{7171, 71}, []any{[]any{-0.5, 7171}, &msgp.RawExtension{Type: 3, Data: []byte(secret)}}, nil, []any{"float32", []any{71}, 1},
		0, secret, []any{m("type", 1, "timestamp", 10.5), m("type", 2, "timestamp", 10.75, secret, secret)},
		m("remote_host", secret, "num_cached", 7171), nil, m("traceparent", "00-1-2-01"),
		m("num_prompt_tokens", 17, "num_cached_tokens", 16, secret, 7171), []byte(secret), 0,
		[]any{secret}, nil, m("num_spec_tokens", 3, "histogram", []any{1, 2}), nil,
	}
	second := append([]any{}, output...)
	second[6] = 7171
	return []any{
		0, []any{output, second},
		m("num_running_reqs", 2, "kv_cache_usage", 0.5, "running_lora_adapters", m(secret, 1),
			"prefix_cache_stats", m("queries", 34, "hits", 32, "hits_by_source", m(secret, 7171)),
			"spec_decoding_stats", m("num_drafts", 1, "num_accepted_tokens_per_pos", []any{1, 0}), secret, m(secret, 7171)),
		20.5, []any{7171, secret, []any{nil, secret}}, []any{"chatcmpl-r1-0a1b2c3d"}, 1, nil, "default", secret,
	}
}

func TestZMQ(t *testing.T) {
	x := strings.Repeat("x", len(secret))
	tests := []struct {
		name  string
		parts [][]byte
		want  []string // shape, or "kept", or "zero"
	}{
		{"add", [][]byte{{0, 0}, {0}, packed(addMessage())}, []string{"kept", "kept",
			`["0_chatcmpl-r1-0a1b2c3d",[0,0,0],[{"xxxxxxxxxx":"` + x + `","xxxx":"AAAAAAAAAAA="}],` +
				`{"n":2,"temperature":0.5,"stop":["` + x + `"],"_all_stop_token_ids":[0],"max_tokens":64,"structured_outputs":{"xxxxx":"` + x + `"},` +
				`"extra_args":{"xxxxxxxxxxxxxxxxxx":{"x":0}},"xxxx` + x + `":0,"logit_bias":{"x":0}},null,1700000000.25,` +
				`["adapter",3,"xxxxxxxxx` + x + `","` + x + `"],"` + x + `",null,null,true,0,1,-5,` +
				`{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","xxxxxx":"` + x + `"},` +
				`false,"chatcmpl-r1",null,{"xxxxxxxxxxxxxxxxxxxx":{"x":0}},false,"` + x + `",null]`}},
		{"add as the engine gets it, with a tensor", [][]byte{{0}, packed(addMessage()[:15]), []byte(secret)}, []string{"kept", "any", "zero"}},
		{"abort", [][]byte{{0, 0}, {1}, packed([]any{"chatcmpl-r1", "a b"})}, []string{"kept", "kept", `["chatcmpl-r1","axb"]`}},
		{"utility", [][]byte{{3}, packed([]any{0, 7171, "add_lora", []any{secret, m("n", 71)}})}, []string{"kept", `[0,0,"xxxxxxxx",["` + x + `",{"x":0}]]`}},
		{"outputs", [][]byte{packed(outputMessage()), {0x91, 7}}, []string{
			`[0,[` + outputShape(x, `"`+x+`"`) + `,` + outputShape(x, "0") + `],` +
				`{"num_running_reqs":2,"kv_cache_usage":0.5,"running_lora_adapters":{"` + x + `":0},` +
				`"prefix_cache_stats":{"queries":34,"hits":32,"hits_by_source":{"` + x + `":0}},` +
				`"spec_decoding_stats":{"num_drafts":1,"num_accepted_tokens_per_pos":[1,0]},"` + x + `":{"` + x + `":0}},` +
				`20.5,[0,"` + x + `",[null,"` + x + `"]],["chatcmpl-r1-0a1b2c3d"],1,null,"default","` + x + `"]`, "zero"}},
		{"outputs of 0.8.2", [][]byte{packed([]any{[]any{[]any{"chatcmpl-1", []any{7171}, nil, nil, 0, 7171, []any{m("type", 1, "timestamp", 1.5)}}}, nil, 2.5, nil})},
			[]string{`[[["chatcmpl-1",[0],null,null,0,0,[{"type":1,"timestamp":1.5}]]],null,2.5,null]`}},
		{"ready", [][]byte{packed(m("vllm_version", "0.32.0", "num_gpu_blocks", 71, "dp_stats_address", "tcp://"+secret, secret, secret))},
			[]string{`{"vllm_version":"0.32.0","num_gpu_blocks":71,"dp_stats_address":"xxxxxx` + x + `","` + x + `":"` + x + `"}`}},
		{"handshake", [][]byte{{0, 0}, packed(m("status", "HELLO", "local", true, "headless", false))}, []string{"kept", "kept"}},
		{"handshake of another kind", [][]byte{packed(m("status", secret, "local", true))}, []string{`{"status":"` + x + `","local":true}`}},
		{"death", [][]byte{[]byte("ENGINE_CORE_DEAD")}, []string{"kept"}},
		{"map of nobody", [][]byte{packed(m("key", secret))}, []string{"zero"}},
		{"pickle", [][]byte{[]byte("\x80\x04\x95\x10" + secret)}, []string{"zero"}},
		{"array of nobody", [][]byte{packed([]any{0, []any{[]any{secret, "a"}}, nil, 1.5, nil, nil, nil})}, []string{"zero"}},
		{"outputs with a byte too many", [][]byte{append(packed(outputMessage()), 1)}, []string{"zero"}},
		{"outputs with a byte too few", [][]byte{packed(outputMessage())[:60]}, []string{"zero"}},
		{"deep", [][]byte{{0}, bytes.Repeat([]byte{0x91}, 100)}, []string{"kept", "zero"}},
		{"long identity", [][]byte{[]byte("tokenizer-" + secret), packed(m("status", "HELLO"))}, []string{"zero", "zero"}},
		{"identity sent again", [][]byte{{0, 0}, {0, 0}, {1}, packed([]any{"r1"})}, []string{"kept", "kept", "kept", "kept"}},
		{"delimiter", [][]byte{{0, 0}, {}, packed(m("status", "READY"))}, []string{"kept", "kept", "kept"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := New()
			for i, p := range tt.parts {
				e := &capture.Event{Kind: capture.KindSend, Seq: uint64(i + 1), Len: len(p), Data: bytes.Clone(p), More: i+1 < len(tt.parts)}
				got := r.Event(e).Data
				if !bytes.Equal(e.Data, p) {
					t.Fatalf("Event changed the original")
				}
				if len(got) != len(p) {
					t.Fatalf("part %d has %d bytes; want %d", i, len(got), len(p))
				}
				switch want := tt.want[i]; want {
				case "any":
				case "kept":
					if !bytes.Equal(got, p) {
						t.Errorf("part %d = %q; want it as it was, %q", i, got, p)
					}
				case "zero":
					if !bytes.Equal(got, make([]byte, len(p))) {
						t.Errorf("part %d = %q; want zero", i, got)
					}
				default:
					if s := shape(t, got); s != want {
						t.Errorf("part %d =\n%s; want\n%s", i, s, want)
					}
				}
				if bytes.Contains(got, []byte(secret)) || bytes.Contains(got, []byte{0xcd, 0x1c, 0x03}) || bytes.Contains(got, []byte{0xd1, 0x1c, 0x03}) {
					t.Errorf("part %d = %q; has the canary", i, got)
				}
			}
		})
	}
}

func outputShape(x, stop string) string {
	return `["chatcmpl-r1-0a1b2c3d",[0,0],[[0,0],{"type":3,"data":"AAAAAAAAAAA="}],null,["xxxxxxx",[0],0],0,` + stop +
		`,[{"type":1,"timestamp":10.5},{"type":2,"timestamp":10.75,"` + x + `":"` + x + `"}],{"xxxxxxxxxxx":"` + x + `","xxxxxxxxxx":0},null,` +
		`{"traceparent":"00-1-2-01"},{"num_prompt_tokens":17,"num_cached_tokens":16,"` + x + `":0},"AAAAAAAAAAA=",0,["` + x + `"],null,` +
		`{"num_spec_tokens":3,"histogram":[1,2]},null]`
}

// A message that is cut anywhere keeps what stands before the cut, redacted as in the
// whole message, up to the value that the cut is in.
func TestZMQCut(t *testing.T) {
	for name, msg := range map[string][]any{"add": addMessage(), "outputs": outputMessage()} {
		p := packed(msg)
		whole := bytes.Clone(p)
		var kind []byte
		if name == "add" {
			kind = []byte{0}
		}
		whole = zmqParts(kind, whole, len(p), 0)
		for n := range len(p) {
			tail := min(10, n)
			got := zmqParts(kind, p[:n], len(p)+100, tail)
			head := got[:n-tail]
			same := 0
			for same < len(head) && head[same] == whole[same] {
				same++
			}
			if rest := head[same:]; !bytes.Equal(rest, make([]byte, len(rest))) {
				t.Fatalf("%s cut at %d = %q; want as in the whole message, then zero", name, n, head)
			}
			if !bytes.Equal(got[n-tail:], make([]byte, tail)) {
				t.Fatalf("%s cut at %d has tail %q; want zero", name, n, got[n-tail:])
			}
			if bytes.Contains(got, []byte(secret)) {
				t.Fatalf("%s cut at %d = %q; has the canary", name, n, got)
			}
		}
	}
}

// zmqParts redacts a payload of which p was captured, behind a type if there is one.
func zmqParts(kind, p []byte, length, tail int) []byte {
	r := New()
	if kind != nil {
		r.Event(&capture.Event{Kind: capture.KindRecv, Len: 1, Data: kind, More: true})
	}
	return bytes.Clone(r.Event(&capture.Event{Kind: capture.KindRecv, Len: length, Data: p, Tail: tail}).Data)
}

// After lost events nothing stays until a part has ended its message.
func TestZMQLostEvents(t *testing.T) {
	r := New()
	part := func(seq uint64, more bool, p []byte) []byte {
		return bytes.Clone(r.Event(&capture.Event{Kind: capture.KindSend, Seq: seq, Len: len(p), Data: p, More: more}).Data)
	}
	ids := packed([]any{"r1"})
	steps := []struct {
		seq  uint64
		more bool
		p    []byte
		kept bool
	}{
		{1, true, []byte{0, 0}, true},
		{2, true, []byte{1}, true},
		{4, true, []byte{1}, false}, // 3 is lost: this may be a tensor
		{5, false, ids, false},
		{6, true, []byte{1}, true},
		{7, false, ids, true},
		{9, false, ids, false},
		{10, true, []byte{1}, true},
		{11, false, ids, true},
	}
	for _, s := range steps {
		want := s.p
		if !s.kept {
			want = make([]byte, len(s.p))
		}
		if got := part(s.seq, s.more, s.p); !bytes.Equal(got, want) {
			t.Errorf("part %d = %q; want %q", s.seq, got, want)
		}
	}
	if r.Lost() != 2 {
		t.Errorf("Lost() = %d; want 2", r.Lost())
	}
}

func FuzzZMQ(f *testing.F) {
	f.Add([]byte{0}, packed(addMessage()), 0, uint8(0), true)
	f.Add([]byte{1}, packed([]any{"r1"}), 0, uint8(0), true)
	f.Add([]byte{}, packed(outputMessage()), 7, uint8(3), false)
	f.Add([]byte{}, packed(m("status", "HELLO")), 0, uint8(0), true)
	f.Add([]byte{0}, []byte{0xdd, 0xff, 0xff, 0xff, 0xff}, 0, uint8(0), true)
	f.Fuzz(func(t *testing.T, kind, p []byte, missing int, tail uint8, more bool) {
		r := New()
		r.Event(&capture.Event{Kind: capture.KindSend, Len: len(kind), Data: kind, More: true})
		e := &capture.Event{Kind: capture.KindSend, Len: len(p) + max(missing, 0), Data: p, Tail: int(tail), More: more}
		got := r.Event(e).Data
		if len(got) != len(p) {
			t.Fatalf("Event(% x) has %d bytes; want %d", p, len(got), len(p))
		}
		if rest, err := msgp.Skip(p); err == nil && len(rest) == 0 && missing <= 0 {
			if rest, err := msgp.Skip(got); err != nil || len(rest) > 0 && !bytes.Equal(got, make([]byte, len(got))) {
				t.Fatalf("Event(% x) = % x; not msgpack any more", p, got)
			}
		}
		// The same bytes as content of a request.
		add := addMessage()
		add[2] = []any{p, string(p)}
		r = New()
		r.Event(&capture.Event{Kind: capture.KindSend, Len: 1, Data: []byte{0}, More: true})
		in := packed(add)
		out := r.Event(&capture.Event{Kind: capture.KindSend, Len: len(in), Data: in}).Data
		if len(p) > 4 && !bytes.Equal(p, bytes.Repeat([]byte{'x'}, len(p))) && !bytes.Equal(p, make([]byte, len(p))) &&
			!bytes.Contains(packed(addMessage()), p) && bytes.Contains(out, p) && !allFiller(p) {
			t.Fatalf("content % x is still in % x", p, out)
		}
	})
}

// allFiller says that bytes could be made of filler and headers alone.
func allFiller(p []byte) bool {
	for _, b := range p {
		if b > ' ' && b < 0x7f && b != 'x' {
			return false
		}
	}
	return true
}
