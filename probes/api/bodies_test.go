package api

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/instrument/request"
)

func TestLookup(t *testing.T) {
	tests := []struct{ target, route string }{
		{"/v1/chat/completions", "/v1/chat/completions"},
		{"/v1/chat/completions?x=/v1/completions", "/v1/chat/completions"},
		{"http://host:8000/v1/completions#f", "/v1/completions"},
		{"/team-a/llm/v1/messages", "/v1/messages"},
		{"/root/v1/rerank", "/v1/rerank"},
		{"/rerank", "/rerank"},
		{"/inference/v1/generate", "/inference/v1/generate"},
		{"/v1/chat/completions/render", ""},
		{"/xv1/completions", ""},
		{"/v1/completions/", ""},
		{"/generative_scoring", ""},
		{"/api/generate", ""},
		{"http://host", ""},
		{"/" + strings.Repeat("x", maxPath) + "/score", ""},
		{"", ""},
	}
	for _, tt := range tests {
		if e, _ := lookup(pathOf([]byte(tt.target))); e.route != tt.route {
			t.Errorf("lookup(%.60q) = %q; want %q", tt.target, e.route, tt.route)
		}
	}
}

// show writes down what a request's body told.
func show(x *request.Exchange) string {
	var b strings.Builder
	add := func(name string, v any) { fmt.Fprintf(&b, " %s=%v", name, v) }
	if x.Model != "" {
		add("model", x.Model)
	}
	if x.Stream != nil && *x.Stream {
		add("stream", *x.Stream)
	}
	if x.Prompts != 0 {
		add("prompts", x.Prompts)
	}
	if x.BodyID != "" {
		add("id", x.BodyID)
	}
	p := x.Params
	for _, f := range []struct {
		name string
		v    *int
	}{{"n", p.N}, {"max", p.MaxTokens}, {"top_k", p.TopK}} {
		if f.v != nil {
			add(f.name, *f.v)
		}
	}
	for _, f := range []struct {
		name string
		v    *float64
	}{{"temperature", p.Temperature}, {"top_p", p.TopP}, {"frequency", p.FrequencyPenalty}, {"presence", p.PresencePenalty}} {
		if f.v != nil {
			add(f.name, *f.v)
		}
	}
	if p.Seed != nil {
		add("seed", *p.Seed)
	}
	if x.BodyMissing {
		add("missing", true)
	}
	return strings.TrimSpace(b.String())
}

// cutMark stands in a test body for bytes that were not captured.
const cutMark = "✂"

// readRequest reads a request's body in pieces of at most size bytes.
func readRequest(route, body string, size int) *request.Exchange {
	e, _ := lookup([]byte(route))
	x := &request.Exchange{Endpoint: e.kind, Route: e.route}
	var b requestBody
	b.reset(x)
	for i, part := range strings.Split(body, cutMark) {
		if i > 0 {
			b.cut()
		}
		for len(part) > 0 {
			n := min(size, len(part))
			b.feed([]byte(part[:n]))
			part = part[n:]
		}
	}
	b.end()
	return x
}

var requestBodies = []struct{ name, route, body, want string }{
	{"chat", "/v1/chat/completions", `{"model": "m", "messages": [{"role": "user", "content": "say \"model\": \\"}], "stream": true, "n": 2, "max_completion_tokens": 5, "max_tokens": 9, "temperature": 0.5, "top_p": 1, "top_k": -1, "seed": 7, "frequency_penalty": 0.1, "presence_penalty": -0.2, "request_id": "r"}`,
		"model=m stream=true prompts=1 id=r n=2 max=5 top_k=-1 temperature=0.5 top_p=1 frequency=0.1 presence=-0.2 seed=7"},
	{"completion of a string", "/v1/completions", `{"prompt":"a","max_tokens":1,"max_completion_tokens":3}`, "prompts=1 max=1"},
	{"completion of strings", "/v1/completions", `{"prompt":["a","b","c"]}`, "prompts=3"},
	{"completion of token ids", "/v1/completions", `{"prompt":[1, 2, 3]}`, "prompts=1"},
	{"completion of token id arrays", "/v1/completions", `{"prompt":[[1,2],[3]]}`, "prompts=2"},
	{"no prompts", "/v1/completions", `{"prompt":[]}`, ""},
	{"embeddings", "/v1/embeddings", `{"input":["a","b"],"prompt":"x"}`, "prompts=2"},
	{"embed v2", "/v2/embed", `{"texts":["a","b"],"input":"x"}`, "prompts=2"},
	{"responses with several messages are one prompt", "/v1/responses", `{"input":[{"role":"user"},{"role":"user"}],"max_output_tokens":4,"max_tokens":5}`, "prompts=1 max=4"},
	{"generate, SGLang", "/generate", `{"text":["a","b"],"sampling_params":{"max_new_tokens":8,"temperature":0,"n":2},"stream":true,"rid":"x"}`,
		"stream=true prompts=2 id=x n=2 max=8 temperature=0"},
	{"generate, SGLang, other names null", "/generate", `{"text":"a","input_ids":null}`, "prompts=1"},
	{"generate, vLLM", "/inference/v1/generate", `{"token_ids":[1,2],"sampling_params":{"max_tokens":8}}`, "prompts=1 max=8"},
	{"rerank has no number of prompts that is sure", "/rerank", `{"query":"q","documents":["a","b"]}`, ""},
	{"duplicate keys: the last", "/v1/chat/completions", `{"n":1,"model":"a","stream":true,"n":2,"model":"b","stream":null}`, "model=b prompts=1 n=2"},
	{"nested keys do not count", "/v1/chat/completions", `{"metadata":{"model":"x","n":9},"tools":[{"model":"y"}],"model":"m"}`, "model=m prompts=1"},
	{"escapes in key and value", "/v1/chat/completions", `{"\u006dodel":"a\/b\u00e9\"","n":1}`, `model=a/bé" prompts=1 n=1`},
	{"numbers as Python sends them", "/v1/chat/completions", `{"n":2.0,"seed":1e3,"max_tokens":1.5,"temperature":NaN,"top_p":"1"}`, "prompts=1 n=2 seed=1000"},
	{"wrong types", "/v1/chat/completions", `{"model":5,"stream":"true","n":[1],"max_tokens":{"a":1},"seed":true}`, "prompts=1"},
	{"deeply nested", "/v1/chat/completions", `{"messages":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `,"n":3}`, "prompts=1 n=3"},
	{"very long key and value", "/v1/chat/completions", `{"` + strings.Repeat("k", 5000) + `":1,"model":"` + strings.Repeat("m", 5000) + `","n":3}`, "prompts=1 n=3"},
	{"malformed: what stood before counts", "/v1/chat/completions", `{"model":"m","n":2,,"seed":1}`, "model=m prompts=1 n=2"},
	{"no object", "/v1/chat/completions", `[{"model":"m"}]`, "prompts=1"},
	{"no JSON", "/v1/chat/completions", `model=m&n=2`, "prompts=1"},
	{"empty", "/v1/chat/completions", ``, "prompts=1"},
	{"cut inside a prompt, keys in the tail", "/v1/chat/completions", `{"messages":[{"content":"long ✂ \"n\":9 }]\\"}],"model":"m","stream":true , "n": 2}` + "\n", "model=m stream=true prompts=1 n=2 missing=true"},
	{"keys before the cut", "/v1/chat/completions", `{"model":"m","n":1,"messages":"✂"}`, "model=m prompts=1 n=1 missing=true"},
	{"tail without a whole key", "/v1/chat/completions", `{"messages":[{"content":"✂, \"model\":\"x\"}"}]}`, "prompts=1 missing=true"},
	{"tail that begins with backslashes", "/v1/chat/completions", `{"messages":"a✂\\\",","n":2}`, "prompts=1 n=2 missing=true"},
	{"cut in a prompt's string", "/v1/completions", `{"prompt":"lo✂ng","n":2}`, "prompts=1 n=2 missing=true"},
	{"cut in prompts", "/v1/completions", `{"prompt":["a","b✂c"],"n":2}`, "n=2 missing=true"},
	{"two cuts", "/v1/completions", `{"n":1,"x":"✂","n":3,"y":"✂z","seed":4}`, "n=1 seed=4 missing=true"},
	{"tail without an end", "/v1/completions", `{"n":1,"x":"✂","n":3`, "n=1 missing=true"},
}

func TestRequestBody(t *testing.T) {
	for _, tt := range requestBodies {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{1 << 30, 1, 2, 3, 7} {
				if got := show(readRequest(tt.route, tt.body, size)); got != tt.want {
					t.Fatalf("in pieces of %d: %.200s = %q; want %q", size, tt.body, got, tt.want)
				}
			}
		})
	}
}

// answer writes down what a response's body told.
func answer(x *request.Exchange) string {
	var b strings.Builder
	if x.ResponseID != "" {
		fmt.Fprintf(&b, " id=%s", x.ResponseID)
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
		fmt.Fprintf(&b, " events=%d first=%d", x.Events, x.FirstToken)
	}
	if x.ResponseCut {
		b.WriteString(" cut")
	}
	return strings.TrimSpace(b.String())
}

// readResponse reads a response's body; the time is 1 before the first line feed, and
// grows with each.
func readResponse(route string, sse bool, n int, body string, size int) *request.Exchange {
	e, _ := lookup([]byte(route))
	x := &request.Exchange{Endpoint: e.kind, Route: e.route, SSE: sse, Prompts: 1}
	x.Params.N = &n
	var b responseBody
	b.reset(x)
	if b.form = formJSON; sse {
		b.form = formSSE
	}
	now := int64(1)
	for i, part := range strings.Split(body, cutMark) {
		if i > 0 {
			b.cut(now, 10, false)
		}
		for len(part) > 0 {
			k := min(size, len(part))
			if lf := strings.IndexByte(part[:k], '\n'); lf >= 0 {
				k = lf + 1
			}
			b.feed(now, []byte(part[:k]))
			if part[k-1] == '\n' {
				now++
			}
			part = part[k:]
		}
	}
	b.end()
	return x
}

var responseBodies = []struct {
	name, route string
	sse         bool
	n           int
	body, want  string
}{
	{"chat", "/v1/chat/completions", false, 1, `{"id":"c","choices":[{"index":0,"message":{"id":"x","content":"a","finish_reason":"no"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":4}},"metrics":{"usage":{"prompt_tokens":9}}}`,
		"id=c usage=1/2/3/4 finish=stop"},
	{"details are null", "/v1/chat/completions", false, 1, `{"id":"c","usage":{"prompt_tokens":1,"total_tokens":3,"completion_tokens":2,"prompt_tokens_details":null}}`, "id=c usage=1/2/-1/-1"},
	{"choices out of order and without index", "/v1/completions", false, 3, `{"choices":[{"index":2,"finish_reason":"length"},{"finish_reason":"stop","index":0},{"finish_reason":"abort"}]}`, "finish=stop,,abort"},
	{"index that is hostile", "/v1/completions", false, 1, `{"choices":[{"index":4000000000,"finish_reason":"length"},{"index":-5,"finish_reason":"stop"}]}`, "finish=,stop"},
	{"messages", "/v1/messages", false, 1, `{"id":"m","type":"message","content":[{"type":"text"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3}}`, "id=m usage=1/2/3/-1 finish=end_turn"},
	{"error", "/v1/chat/completions", false, 1, `{"error":{"message":"type","type":"BadRequestError","code":400}}`, "error=BadRequestError"},
	{"error of vLLM up to 0.9", "/v1/chat/completions", false, 1, `{"object":"error","message":"m","type":"NotFoundError"}`, "error=NotFoundError"},
	{"error of Anthropic", "/v1/messages", false, 1, `{"type":"error","error":{"type":"overloaded_error"},"request_id":"r"}`, "error=overloaded_error"},
	{"FastAPI's error has no type", "/classify", false, 1, `{"detail":"Not Found"}`, ""},
	{"error without a type", "/v1/chat/completions", false, 1, `{"error":"text"}`, ""},
	{"usage of negative and broken numbers", "/v1/chat/completions", false, 1, `{"usage":{"prompt_tokens":-1,"completion_tokens":1.5}}`, ""},
	{"cut embedding: id before, usage behind", "/v1/embeddings", false, 1, `{"id":"e","data":[{"embedding":[0.1,✂0.2]}],"usage":{"prompt_tokens":3,"completion_tokens":0}}`, "id=e usage=3/0/-1/-1 cut"},
	{"old error, cut", "/v1/completions", false, 1, `{"object":"error","message":"long✂","type":"BadRequestError"}`, "error=BadRequestError cut"},
	{"SGLang's generate", "/generate", false, 1, `{"text":"a","meta_info":{"id":"g","finish_reason":{"type":"length","length":8},"prompt_tokens":1,"completion_tokens":2,"cached_tokens":3}}`, "id=g usage=1/2/3/-1 finish=length"},

	{"stream of chat", "/v1/chat/completions", true, 1, "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n" +
		"data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" +
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n", "id=c usage=1/2/-1/-1 finish=stop events=4 first=4"},
	{"CRLF, comments, other fields, no space", "/v1/completions", true, 1, ": ping\r\n\r\nid: 1\r\nretry: 5\r\ndata:{\"id\":\"c\",\"choices\":[{\"text\":\"x\"}]}\r\n\r\ndata: [DONE]\r\n\r\n", "id=c events=1 first=6"},
	{"data in several lines", "/v1/completions", true, 1, "data: {\"id\":\"c\",\ndata: \"choices\":[{\"text\":\ndata: \"x\"}]}\n\n", "id=c events=1 first=4"},
	{"reasoning comes first", "/v1/chat/completions", true, 1, "data: {\"choices\":[{\"delta\":{\"content\":null,\"reasoning_content\":\"hm\"}}]}\n\n", "events=1 first=2"},
	{"tool calls", "/v1/chat/completions", true, 1, "data: {\"choices\":[{\"delta\":{\"tool_calls\":[]}}]}\n\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":5,\"type\":\"function\"}]}}]}\n\n", "events=2 first=4"},
	{"second choice speaks first", "/v1/chat/completions", true, 2, "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"x\"},\"finish_reason\":\"length\"}]}\n\n", "finish=,length events=1 first=2"},
	{"no output at all", "/v1/chat/completions", true, 1, "data: {\"choices\":[{\"delta\":{\"content\":\"\"},\"finish_reason\":\"length\"}]}\n\n", "finish=length events=1 first=0"},
	{"token ids only", "/inference/v1/generate", true, 1, "data: {\"request_id\":\"r\",\"choices\":[{\"token_ids\":[5]}]}\n\n", "id=r events=1 first=2"},
	{"messages", "/v1/messages", true, 1, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"stop_reason\":null,\"usage\":{\"input_tokens\":1,\"output_tokens\":0}}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"content_block\":{\"id\":\"no\",\"text\":\"\"}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"x\"}}\n\n", "id=m usage=1/-1/-1/-1 events=3 first=9"},
	{"messages end", "/v1/messages", true, 1, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":2}}\n\n", "usage=-1/2/-1/-1 finish=tool_use events=1 first=0"},
	{"responses", "/v1/responses", true, 1, "event: response.created\ndata: {\"response\":{\"id\":\"resp\",\"usage\":null},\"type\":\"response.created\"}\n\n" +
		"data: {\"item\":{\"id\":\"msg\"},\"type\":\"response.output_item.added\"}\n\nevent: response.output_text.delta\ndata: {\"delta\":\"x\"}\n\n" +
		"data: {\"response\":{\"id\":\"resp\",\"usage\":{\"input_tokens\":1,\"output_tokens\":2,\"output_tokens_details\":{\"reasoning_tokens\":0}}},\"type\":\"response.completed\"}\n\n", "id=resp usage=1/2/-1/0 events=4 first=8"},
	{"error in the stream", "/v1/chat/completions", true, 1, "data: {\"error\":{\"message\":\"m\",\"type\":\"InternalServerError\"}}\n\ndata: [DONE]\n\n", "error=InternalServerError events=1 first=0"},
	{"old error in the stream", "/v1/chat/completions", true, 1, "data: {\"object\":\"error\",\"type\":\"BadRequestError\"}\n\n", "error=BadRequestError events=1 first=0"},
	{"counts so far, one sequence", "/v1/completions", true, 1, "data: {\"choices\":[{\"text\":\"a\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\ndata: {\"choices\":[{\"text\":\"a\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n", "usage=1/2/-1/-1 events=2 first=2"},
	{"counts of one of two sequences are no sum", "/v1/completions", true, 2, "data: {\"choices\":[{\"index\":1,\"text\":\"a\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\n", "events=1 first=2"},
	{"an event without its end is none", "/v1/completions", true, 1, "data: {\"id\":\"c\",\"choices\":[{\"text\":\"a\"}]}\n", "id=c events=0 first=0"},
	{"broken JSON in between", "/v1/completions", true, 1, "data: {\"choices\":[{]}\n\ndata: {\"choices\":[{\"text\":\"a\"}]}\n\n", "events=2 first=4"},
	{"cut in the first event with output: its time is the segment's", "/v1/completions", true, 1, "data: {\"choices\":[{\"te✂xt\":\"a\"}]}\n\n", "events=0 first=0 cut"},
	{"cut before the first output: its time is unknown", "/v1/completions", true, 1, "data: {\"cho✂\n\ndata: {\"choices\":[{\"text\":\"a\"}]}\n\n", "events=1 first=0 cut"},
	{"cut after the first output", "/v1/completions", true, 1, "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"cho✂\"}\n\ndata: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n", "finish=stop events=2 first=2 cut"},
}

func TestResponseBody(t *testing.T) {
	for _, tt := range responseBodies {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{1 << 30, 1, 2, 3, 7} {
				if got := answer(readResponse(tt.route, tt.sse, tt.n, tt.body, size)); got != tt.want {
					t.Fatalf("in pieces of %d: %.200s = %q; want %q", size, tt.body, got, tt.want)
				}
			}
		})
	}
}

// TestMembers compares what is found from the end of random documents with what a
// whole reading finds: every tail must give a suffix of the same members.
func TestMembers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 9))
	texts := []string{`a`, `\`, `"`, `\\"`, `{"x":1,`, `]}`, `",`, ``}
	for range 300 {
		var doc strings.Builder
		doc.WriteByte('{')
		var starts []int
		for i := range 1 + rnd.IntN(5) {
			if i > 0 {
				doc.WriteByte(',')
			}
			starts = append(starts, doc.Len())
			value, err := json.Marshal([]any{texts[rnd.IntN(len(texts))], map[string]string{texts[rnd.IntN(len(texts))]: texts[rnd.IntN(len(texts))] + texts[rnd.IntN(len(texts))]}})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&doc, "%q:%s", fmt.Sprint("k", i), value)
		}
		doc.WriteString("}\n")
		whole := doc.String()
		for cut := range whole {
			got := members([]byte(whole[cut:]))
			if got == nil {
				continue
			}
			at, ok := len(whole)-len(got), false
			for _, s := range starts {
				ok = ok || s == at
			}
			if !ok {
				t.Fatalf("members(%q) = %q, which is no start of a member of %q", whole[cut:], got, whole)
			}
		}
		if got := members([]byte(whole)); len(got) != len(whole)-1 {
			t.Fatalf("members(%q) = %q; want all of them", whole, got)
		}
	}
}

// FuzzBodies reads any bytes as a body, whole and in pieces, and wants the same.
func FuzzBodies(f *testing.F) {
	for _, tt := range requestBodies {
		if len(tt.body) < 2000 {
			f.Add([]byte(tt.body), uint8(tt.route[len(tt.route)-1]), uint8(3))
		}
	}
	for i, tt := range responseBodies {
		f.Add([]byte(tt.body), uint8(i), uint8(5))
	}
	f.Fuzz(func(t *testing.T, body []byte, which, size uint8) {
		route := endpoints[int(which)%len(endpoints)].route
		pieces := 1 + int(size)
		if one, two := show(readRequest(route, string(body), 1<<30)), show(readRequest(route, string(body), pieces)); one != two {
			t.Fatalf("request %s: whole %q; in pieces of %d %q", route, one, pieces, two)
		}
		for _, sse := range []bool{false, true} {
			one := readResponse(route, sse, 1, string(body), 1<<30)
			two := readResponse(route, sse, 1, string(body), pieces)
			if answer(one) != answer(two) {
				t.Fatalf("response %s, stream %v: whole %q; in pieces of %d %q", route, sse, answer(one), pieces, answer(two))
			}
			if len(one.FinishReasons) > maxChoices || len(one.ResponseID) > 4*maxToken {
				t.Fatalf("unbounded: %d finish reasons, id of %d bytes", len(one.FinishReasons), len(one.ResponseID))
			}
		}
	})
}

// A body that leaves "stream" out asks for one answer; one that was not read to its end,
// or says something odd, does not say.
func TestRequestStreamDefault(t *testing.T) {
	for name, c := range map[string]struct{ path, body, want string }{
		"left out":                    {"/v1/completions", `{"model":"m"}`, "false"},
		"false":                       {"/v1/completions", `{"stream":false}`, "false"},
		"true":                        {"/v1/completions", `{"stream":true}`, "true"},
		"null":                        {"/v1/completions", `{"stream":null}`, "unknown"},
		"a word, which may mean true": {"/v1/completions", `{"stream":"true"}`, "unknown"},
		"not to its end":              {"/v1/completions", `{"model":"m",`, "unknown"},
		"no object":                   {"/v1/completions", `[1]`, "unknown"},
		"no stream at this endpoint":  {"/v1/embeddings", `{"input":"a"}`, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := lookup([]byte(c.path))
			x := &request.Exchange{Endpoint: e.kind}
			var b requestBody
			b.reset(x)
			b.feed([]byte(c.body))
			b.end()
			got := "unknown"
			if x.Stream != nil {
				got = strconv.FormatBool(*x.Stream)
			}
			if got != c.want {
				t.Errorf("stream of %s = %s; want %s", c.body, got, c.want)
			}
		})
	}
}
