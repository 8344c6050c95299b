package vllm

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tinylib/msgp/msgp"

	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/probes/capture"
	"github.com/tokenscope/tokenscope/probes/stream"
)

// send and recv make a message of parts.
func send(socket capture.SocketType, parts ...[]byte) *stream.Message {
	m := &stream.Message{Time: 1, PID: 7, Conn: 9, Socket: socket, Kind: capture.KindSend}
	for _, p := range parts {
		m.Parts = append(m.Parts, stream.Part{Data: p, Len: len(p)})
	}
	return m
}

func recv(socket capture.SocketType, parts ...[]byte) *stream.Message {
	m := send(socket, parts...)
	m.Kind = capture.KindRecv
	return m
}

// step makes EngineCoreOutputs of the newest form around an array of outputs.
func step(ts any, outputs ...any) []byte {
	return array(0, outputs, nil, ts, nil, nil, nil, nil, "default")
}

// output makes an EngineCoreOutput of n fields with some of them set.
func output(n int, fields map[int]any) []any {
	values := make([]any, n)
	values[0], values[1] = "id-1", []any{}
	for i, v := range fields {
		values[i] = v
	}
	return values
}

// Messages that are none of vLLM's are counted, and nothing else.
func TestForeignMessages(t *testing.T) {
	cases := []struct {
		name string
		m    *stream.Message
	}{
		{"pyzmq's garbage collector", send(capture.SocketPush, make([]byte, 8))},
		{"subscription", recv(capture.SocketXPub, []byte{1})},
		{"KV events", send(capture.SocketPub, []byte("kv"), make([]byte, 8), array(1.5, []any{}, nil))},
		{"pickle", send(capture.SocketPush, []byte("\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00N."))},
		{"shutdown of a worker", send(capture.SocketPair, []byte{0})},
		{"remote call", send(capture.SocketDealer, []byte{1}, []byte("ping"))},
		{"tagged msgpack array", send(capture.SocketPush, array("BatchTokenIDOutput", []any{}, nil, nil, nil))},
		{"msgpack array of numbers", recv(capture.SocketPull, array(1, 2, 3, 4, 5))},
		{"msgpack array of nil", recv(capture.SocketPull, array(nil, nil, nil, nil))},
		{"numbers where outputs would be", recv(capture.SocketPull, array(1, []any{2, 3}, nil, 4.5, nil))},
		{"identity and text", recv(capture.SocketRouter, []byte{0, 0}, []byte("hello"))},
		{"unrelated map", send(capture.SocketDealer, appendValue(nil, map[string]any{"op": "get"}))},
		{"JSON", send(capture.SocketDealer, []byte(`{"max_model_len":1}`))},
		{"unknown request type", requestMessage(9, array("a"))},
		{"type of a request with text behind", requestMessage(typeAdd, []byte("text"))},
		{"abort of numbers", requestMessage(typeAbort, array(1, 2))},
		{"no parts", send(capture.SocketPush)},
	}
	for _, c := range cases {
		for _, socket := range []capture.SocketType{c.m.Socket, capture.SocketUnknown} {
			t.Run(c.name, func(t *testing.T) {
				m := *c.m
				m.Socket = socket
				var got recorder
				d := NewDecoder(&got)
				d.Message(&m)
				d.Gap(&stream.Gap{Time: 2, PID: m.PID, Conn: m.Conn, Kind: m.Kind, Socket: capture.SocketUnknown})
				if len(got.inputs) > 0 || len(got.gaps) > 0 || d.Stats() != (Stats{Unknown: 1}) {
					t.Errorf("Message gave %v, %d gaps, stats %+v; want one unknown", got.inputs, len(got.gaps), d.Stats())
				}
			})
		}
	}
}

func TestDead(t *testing.T) {
	for _, c := range []struct {
		m    *stream.Message
		side string
	}{
		{send(capture.SocketPush, []byte(deadMessage)), "core"},
		{recv(capture.SocketPull, []byte(deadMessage)), "front-end"},
		{recv(capture.SocketUnknown, []byte(deadMessage)), "front-end"},
	} {
		var got recorder
		NewDecoder(&got).Message(c.m)
		want := []object{{"dead": object{"side": c.side}}}
		if diff := cmp.Diff(want, got.inputs); diff != "" {
			t.Errorf("Message(ENGINE_CORE_DEAD) gave (-want +got):\n%s", diff)
		}
	}
}

// Sends that were refused and tried again.
func TestRepeatedSends(t *testing.T) {
	identity, add := []byte{0, 0}, requestMessage(typeAdd, addOf(&addLayouts[len(addLayouts)-1])).Parts[2].Data
	t.Run("identity twice", func(t *testing.T) {
		var got recorder
		NewDecoder(&got).Message(send(capture.SocketRouter, identity, identity, []byte{0}, add))
		if len(got.inputs) != 1 || got.inputs[0]["add"] == nil {
			t.Errorf("Message gave %v; want one ADD", got.inputs)
		}
	})
	t.Run("type twice", func(t *testing.T) {
		var got recorder
		NewDecoder(&got).Message(send(capture.SocketPush, []byte{0}, []byte{0}, add))
		if len(got.inputs) != 1 || got.inputs[0]["add"] == nil {
			t.Errorf("Message gave %v; want one ADD", got.inputs)
		}
	})
	t.Run("outputs twice", func(t *testing.T) {
		var got recorder
		d := NewDecoder(&got)
		first := send(capture.SocketPush, step(1.5, output(18, map[int]any{1: []any{7}})))
		d.Message(first)
		d.Message(first)
		d.Message(send(capture.SocketPush, step(1.75, output(18, map[int]any{1: []any{7}}))))
		if len(got.inputs) != 2 || d.Stats().Repeated != 1 {
			t.Errorf("Message gave %d steps, %d repeated; want 2 and 1", len(got.inputs), d.Stats().Repeated)
		}
	})
	t.Run("outputs received twice are two", func(t *testing.T) {
		var got recorder
		d := NewDecoder(&got)
		m := recv(capture.SocketPull, step(1.5, output(18, nil)))
		d.Message(m)
		d.Message(m)
		if len(got.inputs) != 2 || d.Stats().Repeated != 0 {
			t.Errorf("Message gave %d steps, %d repeated; want 2 and 0", len(got.inputs), d.Stats().Repeated)
		}
	})
}

// Outputs whose fields are not what a release we know has there.
func TestOutputsOddities(t *testing.T) {
	event := func(typ, ts any) any { return map[string]any{"type": typ, "timestamp": ts} }
	cases := []struct {
		name   string
		output []any
		key    string
		want   any
	}{
		{"no tokens", output(18, map[int]any{1: nil}), "tokens", 0},
		{"large token ids", output(18, map[int]any{1: []any{1 << 20, 128, 5}}), "tokens", 3},
		{"unknown finish reason", output(18, map[int]any{5: 77}), "finish", 77},
		{"finish reason is text", output(18, map[int]any{5: "stop"}), "finish", int(finishUnknown)},
		{"finish before 0.9.2", output(7, map[int]any{4: 1}), "finish", 1},
		{"whole time of an event", output(18, map[int]any{7: []any{event(1, 5)}}), "events", []any{[]any{1, 5}}},
		{"unknown event type", output(18, map[int]any{7: []any{event(9, 1.5)}}), "events", []any{[]any{9, 1.5}}},
		{"events of another form", output(18, map[int]any{7: []any{[]any{1, 1.5}, event(2, 2.5), event("x", nil)}}), "events", []any{[]any{2, 2.5}}},
		{"events are no array", output(18, map[int]any{7: "none"}), "events", []any{}},
		{"events before 0.9.2", output(7, map[int]any{6: []any{event(3, 1.5)}}), "events", []any{[]any{3, 1.5}}},
		{"cached tokens of 0.9.0", output(9, map[int]any{8: 16}), "cached", 16},
		{"cached tokens of 0.9.2", output(10, map[int]any{9: 16}), "cached", 16},
		{"cached tokens of 0.11.1", output(12, map[int]any{10: 16, 11: 3}), "cached", 16},
		{"cached tokens of 0.16", output(14, map[int]any{10: 16, 11: 4, 13: 3}), "cached", 16},
		{"cached tokens not known yet", output(10, map[int]any{9: -1}), "cached", -1},
		{"cached tokens beyond belief", output(10, map[int]any{9: uint64(1) << 63}), "cached", -1},
		{"nans are no cached tokens", output(13, map[int]any{12: 3}), "cached", -1},
		{"prefill of 0.20", output(13, map[int]any{10: map[string]any{"num_cached_tokens": 5, "num_prompt_tokens": 9}}), "cached", 5},
		{"prefill of 0.26", output(14, map[int]any{10: map[string]any{"traceparent": "00"}, 11: map[string]any{"num_cached_tokens": 5}}), "cached", 5},
		{"prefill of a release to come", output(25, map[int]any{20: map[string]any{"num_prompt_tokens": 9}}), "prompt", 9},
		{"transfer parameters are no prefill", output(18, map[int]any{8: map[string]any{"num_prompt_tokens": 9}}), "prompt", -1},
		{"pooling", output(18, map[int]any{4: []any{"float32", []any{4}, 1}}), "pooling", true},
		{"no pooling before 0.9.2", output(9, map[int]any{4: 1}), "pooling", false},
		{"id with suffix", output(13, nil), "suffixed", true},
		{"id without suffix", output(12, nil), "suffixed", false},
		{
			"speculative decoding", output(18, map[int]any{16: map[string]any{"num_spec_tokens": 3, "histogram": []any{1, 2}, "x": nil}}),
			"spec", object{"num_spec_tokens": 3, "num_draft_tokens": 0, "histogram": []any{1, 2}, "per_step_accepted": nil, "per_step_drafted": nil},
		},
		{"another map where the counters would be", output(18, map[int]any{16: map[string]any{"a": 1}}), "spec", nil},
		{"two fields", []any{"id-1", []any{7}}, "tokens", 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got recorder
			d := NewDecoder(&got)
			// A second output shows that the first was read to its end.
			d.Message(send(capture.SocketPush, step(1.5, c.output, output(18, map[int]any{0: "id-2"}))))
			if len(got.inputs) != 1 || d.LastError() != nil {
				t.Fatalf("Message gave %v, error %v; want one step", got.inputs, d.LastError())
			}
			outputs := asJSON(t, got.inputs[0]["step"]).(object)["outputs"].([]any)
			if len(outputs) != 2 || outputs[1].(object)["id"] != "id-2" {
				t.Fatalf("Message gave outputs %v; want two", outputs)
			}
			if diff := cmp.Diff(asJSON(t, c.want), outputs[0].(object)[c.key]); diff != "" {
				t.Errorf("Message: %s (-want +got):\n%s", c.key, diff)
			}
		})
	}
}

func TestStepOddities(t *testing.T) {
	stats := map[string]any{"num_running_reqs": 3, "num_waiting_reqs": 4, "num_skipped_waiting_reqs": 2, "x": map[string]any{"num_running_reqs": 99}}
	one := []any{output(18, nil)}
	cases := []struct {
		name    string
		payload []byte
		key     string
		want    any
	}{
		{"0.8.2", array(one, stats, 1.5, nil), "timestamp_s", 1.5},
		{"0.8.2 has no engine index", array(one, stats, 1.5, nil), "engine_index", -1},
		{"0.8.4", array(2, one, stats, 1.5, nil, nil, false), "engine_index", 2},
		{"a release to come", array(2, one, stats, 1.5, nil, nil, nil, nil, "v", map[string]any{"a": 1}, 5), "timestamp_s", 1.5},
		{"skipped requests wait too", array(0, one, stats, 1.5, nil, nil, nil, nil), "waiting", 6},
		{"nested names are not ours", array(0, one, stats, 1.5, nil, nil, nil, nil), "running", 3},
		{"no statistics", array(0, one, nil, 1.5, nil, nil, nil, nil), "running", -1},
		{"statistics of another form", array(0, one, []any{1, 2}, 1.5, nil, nil, nil, nil), "waiting", -1},
		{"whole time", array(0, one, nil, 1500, nil, nil, nil, nil), "timestamp_s", 1500},
		{"no time", array(0, one, nil, nil, nil, nil, nil, nil), "timestamp_s", nil},
		{"outputs are nil", array(0, nil, stats, 1.5, nil, nil, nil, nil), "outputs", []any{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got recorder
			d := NewDecoder(&got)
			d.Message(send(capture.SocketPush, c.payload))
			if len(got.inputs) != 1 || d.LastError() != nil {
				t.Fatalf("Message gave %v, error %v; want one step", got.inputs, d.LastError())
			}
			if diff := cmp.Diff(asJSON(t, c.want), asJSON(t, got.inputs[0]["step"]).(object)[c.key]); diff != "" {
				t.Errorf("Message: %s (-want +got):\n%s", c.key, diff)
			}
		})
	}
}

// Messages that are vLLM's but cannot be understood: counted, told as a gap, nothing
// handed on.
func TestMalformedMessages(t *testing.T) {
	huge := raw{0xdd, 0xff, 0xff, 0xff, 0xff} // an array of 2³²−1
	deep := bytes.Repeat([]byte{0x91}, 16<<10)
	cases := []struct {
		name    string
		m       *stream.Message
		side    request.Side
		failure func(Stats) Counts
	}{
		{"huge array of outputs", send(capture.SocketPush, append(array(0), huge...)), request.Core, nil},
		{"output is a number", send(capture.SocketPush, step(1.5, output(18, nil), 5)), request.Core, outputsFailed},
		{"output has no id", send(capture.SocketPush, step(1.5, output(18, map[int]any{0: 5}))), request.Core, outputsFailed},
		{"tokens are text", send(capture.SocketPush, step(1.5, output(18, map[int]any{1: "abc"}))), request.Core, outputsFailed},
		{"output is empty", recv(capture.SocketPull, step(1.5, []any{})), request.FrontEnd, outputsFailed},
		{"invalid byte behind the outputs", recv(capture.SocketPull, array(0, []any{}, nil, 1.5, raw{0xc1})), request.FrontEnd, outputsFailed},
		{"huge token array", send(capture.SocketPush, step(1.5, []any{"a", huge})), request.Core, outputsFailed},
		{"deep nesting", send(capture.SocketPush, array(0, []any{[]any{"a", []any{}, raw(deep)}}, nil, 1.5)), request.Core, outputsFailed},
		{"too many outputs", send(capture.SocketPush, step(1.5, slices.Repeat([]any{[]any{"", nil}}, maxOutputs+1)...)), request.Core, outputsFailed},
		{"ADD ends early", requestMessage(typeAdd, addOf(&addLayouts[0])[:40]), request.FrontEnd, addFailed},
		{"ADD has an invalid byte", requestMessage(typeAdd, array("id", []any{1}, nil, nil, nil, nil, nil, nil, nil, raw{0xc1})), request.FrontEnd, addFailed},
		{"ABORT ends early", requestMessage(typeAbort, array("a", "b")[:3]), request.FrontEnd, abortFailed},
		{"ABORT of text and number", requestMessage(typeAbort, array("a", 5)), request.FrontEnd, abortFailed},
		{"ABORT of too many", requestMessage(typeAbort, array(slices.Repeat([]any{"a"}, maxAbortIDs+1)...)), request.FrontEnd, abortFailed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got recorder
			d := NewDecoder(&got)
			d.Message(c.m)
			if len(got.inputs) > 0 {
				t.Errorf("Message gave %v; want nothing", got.inputs)
			}
			if c.failure == nil {
				if d.Stats() != (Stats{Unknown: 1}) {
					t.Errorf("Stats() = %+v; want one unknown", d.Stats())
				}
				return
			}
			if c.failure(d.Stats()) != (Counts{Failed: 1}) || d.LastError() == nil {
				t.Errorf("Stats() = %+v, LastError() = %v; want one failure", d.Stats(), d.LastError())
			}
			if !slices.Equal(got.gaps, []request.Side{c.side}) {
				t.Errorf("gaps on sides %v; want one on %v", got.gaps, c.side)
			}
		})
	}
}

func outputsFailed(s Stats) Counts { return s.Outputs }
func addFailed(s Stats) Counts     { return s.Add }
func abortFailed(s Stats) Counts   { return s.Abort }

// What a socket has carried decides what its loss means.
func TestGap(t *testing.T) {
	add := requestMessage(typeAdd, addOf(&addLayouts[0]))
	outputs := recv(capture.SocketPull, step(1.5, output(18, nil)))
	ready := send(capture.SocketDealer, appendValue(nil, map[string]any{"num_gpu_blocks": 5}))
	foreign := send(capture.SocketPush, make([]byte, 8))
	cases := []struct {
		name   string
		before []*stream.Message
		gap    stream.Gap
		want   []request.Side
	}{
		{"requests", []*stream.Message{add}, stream.Gap{PID: 7, Conn: 9, Kind: capture.KindSend}, []request.Side{request.FrontEnd}},
		{"outputs", []*stream.Message{outputs}, stream.Gap{PID: 7, Conn: 9, Kind: capture.KindRecv}, []request.Side{request.FrontEnd}},
		{"ready messages only", []*stream.Message{ready}, stream.Gap{PID: 7, Conn: 9, Kind: capture.KindSend}, nil},
		{"handed over by type: sends of ROUTER", nil, stream.Gap{PID: 7, Conn: 9, Kind: capture.KindSend, Socket: capture.SocketRouter}, []request.Side{request.FrontEnd}},
		{"receives of DEALER", nil, stream.Gap{PID: 7, Conn: 9, Kind: capture.KindRecv, Socket: capture.SocketDealer}, []request.Side{request.Core}},
		{"sends of PUSH", nil, stream.Gap{PID: 7, Conn: 9, Kind: capture.KindSend, Socket: capture.SocketPush}, []request.Side{request.Core}},
		{"sends of PUB", []*stream.Message{add}, stream.Gap{PID: 7, Conn: 1, Kind: capture.KindSend, Socket: capture.SocketPub}, nil},
		{"unknown type in a front-end", []*stream.Message{add}, stream.Gap{PID: 7, Conn: 1, Kind: capture.KindSend, Socket: capture.SocketUnknown}, []request.Side{request.FrontEnd}},
		{"unknown type in another process", []*stream.Message{add}, stream.Gap{PID: 8, Conn: 1, Kind: capture.KindSend, Socket: capture.SocketUnknown}, nil},
		{"unknown type where nothing was understood", []*stream.Message{foreign}, stream.Gap{PID: 7, Conn: 9, Kind: capture.KindSend, Socket: capture.SocketUnknown}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got recorder
			d := NewDecoder(&got)
			for _, m := range c.before {
				d.Message(m)
			}
			d.Gap(&c.gap)
			if !slices.Equal(got.gaps, c.want) {
				t.Errorf("Gap(%+v) told gaps on sides %v; want %v", c.gap, got.gaps, c.want)
			}
		})
	}
}

func TestExitForgets(t *testing.T) {
	var got recorder
	d := NewDecoder(&got)
	d.Message(requestMessage(typeAdd, addOf(&addLayouts[0])))
	d.Exit(7)
	if len(d.sockets) != 0 {
		t.Errorf("Exit(7) left %d sockets", len(d.sockets))
	}
}

func TestSocketsAreBounded(t *testing.T) {
	d := NewDecoder(new(recorder))
	m := requestMessage(typeAbort, array("a"))
	for i := range 3 * maxSockets {
		m.Conn = uint64(i)
		d.Message(m)
	}
	if len(d.sockets) > maxSockets {
		t.Errorf("Decoder remembers %d sockets; want at most %d", len(d.sockets), maxSockets)
	}
}

// A cursor stands where it was after a failure, and hostile lengths cost nothing.
func TestCursorHostile(t *testing.T) {
	cases := []struct {
		name  string
		bytes []byte
		want  error
	}{
		{"empty", nil, errShort},
		{"huge array", []byte{0xdd, 0xff, 0xff, 0xff, 0xff, 1}, errShort},
		{"huge map", []byte{0xdf, 0xff, 0xff, 0xff, 0xff, 1}, errShort},
		{"huge string", []byte{0xdb, 0xff, 0xff, 0xff, 0xff, 'a'}, errShort},
		{"huge extension", []byte{0xc9, 0xff, 0xff, 0xff, 0xff, 3, 1}, errShort},
		{"array header cut", []byte{0xdc, 0}, errShort},
		{"invalid byte", []byte{0xc1}, errForm},
		{"invalid byte inside", []byte{0x92, 1, 0xc1}, errForm},
		{"deep arrays", bytes.Repeat([]byte{0x91}, 1<<20), errShort},
		{"deep maps", bytes.Repeat([]byte{0x81}, 1<<20), errShort},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cur := cursor(c.bytes)
			if err := cur.skip(); err != c.want {
				t.Errorf("skip() = %v; want %v", err, c.want)
			}
			if len(cur) != len(c.bytes) {
				t.Errorf("skip() moved the cursor by %d", len(c.bytes)-len(cur))
			}
		})
	}
}

// skip and msgp's own agree on what is well formed.
func TestCursorSkipAgrees(t *testing.T) {
	for _, s := range samples(t) {
		for _, part := range s.Parts {
			c := cursor(part)
			err := c.skip()
			rest, want := msgp.Skip(part)
			if (err == nil) != (want == nil) || err == nil && len(rest) != len(c) {
				t.Errorf("%s/%s: skip() = %v, %d left; msgp says %v, %d", s.Release, s.Name, err, len(c), want, len(rest))
			}
		}
	}
}
