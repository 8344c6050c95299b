package redact

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// redactJSON runs one text through the machine in the given pieces.
func redactJSON(root *node, text string, cuts ...int) string {
	var j jsonRedactor
	j.reset(root)
	p := []byte(text)
	at := 0
	for _, cut := range append(cuts, len(p)) {
		j.redact(p[at:cut])
		at = cut
	}
	return string(p)
}

func TestJSON(t *testing.T) {
	tests := []struct {
		name     string
		root     *node
		in, want string
	}{
		{"chat request", requestRoot,
			`{"model": "org/tiny", "messages": [{"role": "user", "content": "Hi é\n"}], "max_tokens": 8, "stream": true}`,
			`{"model": "org/tiny", "messages": [{"role": "user", "content": "xxxxxxx"}], "max_tokens": 8, "stream": true}`},
		{"parts", requestRoot,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a\u0041"},{"type":"image_url","image_url":{"url":"http://h/s"}}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"xxxxxxx"},{"type":"image_url","image_url":{"XXX":"xxxxxxxxxx"}}]}]}`},
		{"unknown role", requestRoot, `{"messages":[{"role":"bob"}]}`, `{"messages":[{"role":"XXX"}]}`},
		{"prompt as token ids", requestRoot, `{"prompt":[[1,23,456],[7]]}`, `{"prompt":[[1,11,111],[1]]}`},
		{"list where a number belongs", requestRoot, `{"n":[17,19],"seed":17}`, `{"n":[11,11],"seed":17}`},
		{"list where a name belongs", requestRoot, `{"model":["secret"]}`, `{"model":["xxxxxx"]}`},
		{"object where a number belongs", requestRoot, `{"n":{"n":5}}`, `{"n":{"X":1}}`},
		{"number where a name belongs", requestRoot, `{"model":12.5e-3}`, `{"model":11.1e-0}`},
		{"tool definition", requestRoot,
			`{"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"model":{"default":true}}}}}]}`,
			`{"tools":[{"type":"function","function":{"XXXX":"x","XXXXXXXXXX":{"XXXXXXXXXX":{"XXXXX":{"XXXXXXX":null}}}}}]}`},
		{"logit bias", requestRoot, `{"logit_bias":{"50256":-100}}`, `{"logit_bias":{"XXXXX":-111}}`},
		{"unknown key", requestRoot, `{"modelx":"a","x":false,"model":"b"}`, `{"XXXXXX":"x","X":null ,"model":"b"}`},
		{"escaped key", requestRoot, `{"m\u006fdel":"a"}`, `{"XXXXXXXXXX":"x"}`},
		{"escaped name", requestRoot, `{"model":"a\/b\u6a21"}`, `{"model":"a\/b\u6a21"}`},
		{"long name", requestRoot,
			`{"model":"` + strings.Repeat("a", 300) + `"}`, `{"model":"` + strings.Repeat("a", 256) + strings.Repeat("x", 44) + `"}`},
		{"escaped quote", requestRoot, `{"prompt":"\"}","n":1}`, `{"prompt":"xxx","n":1}`},
		{"stop reason is a word", responseRoot,
			`{"choices":[{"finish_reason":"stop","stop_reason":"stop"}]}`, `{"choices":[{"finish_reason":"stop","stop_reason":"stop"}]}`},
		{"stop reason is a stop string", responseRoot,
			`{"choices":[{"finish_reason":"stop","stop_reason":"stoppage"}]}`, `{"choices":[{"finish_reason":"stop","stop_reason":"XXXXXXXX"}]}`},
		{"stop reason is a word's beginning", responseRoot, `{"choices":[{"stop_reason":"len"}]}`, `{"choices":[{"stop_reason":"XXX"}]}`},
		{"stop reason is a token", responseRoot, `{"choices":[{"stop_reason":2}]}`, `{"choices":[{"stop_reason":1}]}`},
		{"usage", responseRoot,
			`{"id":"cmpl-1","usage":{"prompt_tokens":17,"prompt_tokens_details":{"cached_tokens":16},"secret":5}}`,
			`{"id":"cmpl-1","usage":{"prompt_tokens":17,"prompt_tokens_details":{"cached_tokens":16},"XXXXXX":1}}`},
		{"error", responseRoot,
			`{"error":{"message":"no such","type":"BadRequestError","param":"model","code":400}}`,
			`{"error":{"message":"xxxxxxx","type":"BadRequestError","param":"xxxxx","code":400}}`},
		{"error of old releases", responseRoot,
			`{"object":"error","message":"m","type":"Bad Request","param":null,"code":400}`,
			`{"object":"error","message":"x","type":"Bad Request","param":null,"code":400}`},
		{"error type that is a sentence", responseRoot,
			`{"error":{"type":"Bad words in prompt"}}`, `{"error":{"type":"XXXXXXXXXXXXXXXXXXX"}}`},
		{"error type from a JSON decoder", responseRoot,
			`{"type":"Expecting value: line 1 column 32 (char 31)"}`, `{"type":"Expecting value: line 1 column 32 (char 31)"}`},
		{"logprobs keyed by tokens", responseRoot,
			`{"choices":[{"logprobs":{"top_logprobs":[{" dog":-1.5}]}}]}`, `{"choices":[{"logprobs":{"top_logprobs":[{"XXXX":-1.1}]}}]}`},
		{"embedding", responseRoot,
			`{"data":[{"index":3,"object":"embedding","embedding":[-0.25,1e-05]}]}`, `{"data":[{"index":3,"object":"embedding","embedding":[-1.11,1e-00]}]}`},
		{"text delta and object delta", responseRoot,
			`[{"delta":"t"},{"delta":{"type":"text_delta","text":"t"}}]`, `[{"delta":"x"},{"delta":{"type":"text_delta","text":"x"}}]`},
		{"fault: word", requestRoot, `{"n":1,hello}`, `{"n":1,xxxxxx`},
		{"fault: behind the end", requestRoot, `{"n":1} {"n":1}`, `{"n":1} xxxxxxx`},
		{"fault: bracket", requestRoot, `{"prompt":[1}],"n":1`, `{"prompt":[1xxxxxxxx`},
		{"fault: line end in a string", requestRoot, "{\"model\":\"a\nb\"}", `{"model":"XXxxx`},
		{"fault: escape", requestRoot, `{"prompt":"\u00"}`, `{"prompt":"XXXXXx`},
		{"fault: literal", requestRoot, `{"stream":trUe}`, `{"stream":trxxx`},
		{"cut short", requestRoot, `{"model":"a","prompt":"The`, `{"model":"a","prompt":"xxx`},
		{"no JSON", requestRoot, `The quick`, `xxxxxxxxx`},
		{"number of many digits", requestRoot, `{"n":` + strings.Repeat("7", 40) + `}`, `{"n":` + strings.Repeat("7", 32) + strings.Repeat("1", 8) + `}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := redactJSON(tt.root, tt.in); got != tt.want {
				t.Fatalf("redact(%s) =\n%s; want\n%s", tt.in, got, tt.want)
			}
			if json.Valid([]byte(tt.in)) && !json.Valid([]byte(tt.want)) {
				t.Errorf("redact(%s) = %s; not JSON any more", tt.in, tt.want)
			}
			for cut := range len(tt.in) + 1 {
				got := redactJSON(tt.root, tt.in, cut)
				if !sameButPrefixes(got, tt.want, tt.in) {
					t.Errorf("redact(%s) cut at %d = %s; want %s", tt.in, cut, got, tt.want)
				}
			}
		})
	}
}

// sameButPrefixes allows what was handed on before it was known that a word is none of
// the list, or that the text is faulty: an original byte, or the other filler.
func sameButPrefixes(got, want, in string) bool {
	for i := range len(want) {
		if got[i] != want[i] && !(want[i] == 'X' && (got[i] == in[i] || got[i] == 'x')) {
			return false
		}
	}
	return len(got) == len(want)
}

func TestJSONEnd(t *testing.T) {
	tests := []struct{ name, head, tail, want string }{
		{"members behind a prompt", `{"model":"m","prompt":"a`, `b","n":2,"stop":"a"}`, `xx,"n":2,"stop":"x"}`},
		{"behind messages", `{"messages":[{"role":"u`, `secret"},{"model":"b, c"}], "stream":true ,"seed":7}` + "\n", strings.Repeat("x", 26) + `, "stream":true ,"seed":7}` + "\n"},
		{"a prompt that poses as members", `{"prompt":"a`, `\",\"model\":\"secret\"","n":2}`, strings.Repeat("x", 24) + `,"n":2}`},
		{"backslashes begin before", `{"prompt":"a`, `\","model":"b"}`, `xx,"model":"b"}`}, // an even number: outside there are none
		{"backslash at a string's end", `{"prompt":"a`, `b\\","n":2}`, `xxxx,"n":2}`},
		{"only the last member", `{"n":2,"prompt":"a`, `b, "model" c"}`, strings.Repeat("x", 14)},
		{"nested object's members", `{"a":{"prompt":"a`, `b","model":"secret"}}`, strings.Repeat("x", 21)},
		{"no object's end", `{"prompt":"a`, `b","n":2`, strings.Repeat("x", 8)},
		{"a start in the tail", `{"prompt":"a`, `{"n":1,"model":"secret"}`, strings.Repeat("x", 24)},
		{"brackets that do not match", `{"prompt":"a`, `b","n":[1},"n":2}`, strings.Repeat("x", 17)},
		{"a list", `[{"prompt":"a`, `b"},"n":2}`, strings.Repeat("x", 10)},
		{"a fault before", `{"prompt":a`, `b","n":2}`, strings.Repeat("x", 9)},
		{"nothing before", ``, `b","n":2}`, strings.Repeat("x", 9)},
		{"empty", `{"prompt":"a`, ``, ``},
	}
	for _, tt := range tests {
		var j jsonRedactor
		j.reset(requestRoot)
		j.redact([]byte(tt.head))
		j.lose()
		p := []byte(tt.tail)
		j.end(p)
		if string(p) != tt.want {
			t.Errorf("%s: end(%s) behind %s = %s; want %s", tt.name, tt.tail, tt.head, p, tt.want)
		}
	}
}

func TestJSONDepth(t *testing.T) {
	in := `{"tools":` + strings.Repeat("[", 2*maxJSONDepth) + `"secret`
	got := redactJSON(requestRoot, in)
	if strings.Contains(got, "secret") || len(got) != len(in) {
		t.Errorf("redact of %d levels = …%s; want no secret", 2*maxJSONDepth, got[len(got)-20:])
	}
}

// Everything below a place of content goes, at any depth and under any key.
func TestJSONCanaryEverywhere(t *testing.T) {
	const canary = "canary71"
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, root := range []*node{requestRoot, responseRoot} {
		for range 300 {
			doc := randomDoc(rnd, root, canary, 0)
			text, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			got := redactJSON(root, string(text), rnd.IntN(len(text)+1))
			if strings.Contains(got, canary) {
				t.Fatalf("redact(%s) = %s; has the canary", text, got)
			}
			if !json.Valid([]byte(got)) {
				t.Fatalf("redact(%s) = %s; want JSON", text, got)
			}
		}
	}
}

// randomDoc makes a document of the schema's shape, with the canary wherever a string
// is not kept by its place.
func randomDoc(rnd *rand.Rand, n *node, canary string, depth int) any {
	switch {
	case len(n.keys) > 0 && depth < 6 && rnd.IntN(8) > 0:
		out := map[string]any{canary: map[string]any{"model": canary, canary: []any{canary}}}
		for range 6 {
			k := rnd.IntN(len(n.keys))
			out[n.keys[k]] = randomDoc(rnd, n.kids[k], canary, depth+1)
		}
		if rnd.IntN(2) == 0 {
			return []any{out, canary}
		}
		return out
	case len(n.keys) > 0:
		return canary
	case n.str == blankString, n.str == apiString, n.str == finishString, n.str == topString:
		return []any{canary, "stop " + canary, nil, true, 71.5, []any{canary}, map[string]any{"id": canary}}[rnd.IntN(7)]
	}
	return "kept"
}

func FuzzJSON(f *testing.F) {
	f.Add(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`, 7, true)
	f.Add(`{"choices":[{"stop_reason":"x","finish_reason":{"type":"stop"}}]}`, 20, false)
	f.Add(`[1,-2.5e+10,"\u00e9",null,true,false]`, 3, false)
	f.Add(`{"n":1,hello}`, 4, true)
	f.Fuzz(func(t *testing.T, text string, cut int, request bool) {
		root := responseRoot
		if request {
			root = requestRoot
		}
		cut = min(max(cut, 0), len(text))
		got := redactJSON(root, text, cut)
		if len(got) != len(text) {
			t.Fatalf("redact(%q) has %d bytes; want %d", text, len(got), len(text))
		}
		if json.Valid([]byte(text)) && !json.Valid([]byte(got)) {
			t.Fatalf("redact(%q) = %q; not JSON any more", text, got)
		}
		var j jsonRedactor
		j.reset(root)
		j.redact([]byte("{"))
		j.lose()
		if p := []byte(text); len(p) > 0 {
			if j.end(p); strings.Trim(string(p), "x") != "" && !json.Valid([]byte("{"+strings.TrimLeft(string(p), "x,"))) {
				t.Fatalf("end(%q) = %q; want filler or the end of an object", text, p)
			}
		}
		// The same text as a prompt: nothing of it may be left.
		quoted, _ := json.Marshal(text)
		in := append([]byte(`{"prompt":`), quoted...)
		out := redactJSON(requestRoot, string(in), min(cut, len(in)))
		if rest := strings.Trim(out[len(`{"prompt":"`):], "x"); rest != `"` {
			t.Fatalf("redact(%q) = %q; want only filler", in, out)
		}
	})
}
