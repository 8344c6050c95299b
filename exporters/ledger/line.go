package ledger

import (
	_ "embed"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/tokenscope/tokenscope/exporters/internal/jsontext"
	"github.com/tokenscope/tokenscope/exporters/latency"
	"github.com/tokenscope/tokenscope/instrument/request"
)

// Version is the version of the line's schema, `v` in each line.
const Version = 1

// Schema is the JSON Schema (draft 2020-12) of a line.
//
//go:embed request-line.schema.json
var Schema []byte

// timeLayout is RFC 3339 with all nanosecond digits, in UTC.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

// AppendLine appends the line of r, without a newline. instance is the agent's
// service.instance.id; "" writes null.
func AppendLine(dst []byte, r *request.Request, instance string) []byte {
	l := line{buf: dst}
	l.open('{')
	l.key("v").int(Version)
	l.key("record").text(uuid.UUID(r.Record).String())
	l.key("state").text("finished")
	l.key("instance").textOrNull(instance)
	l.key("time").text(time.Unix(0, r.Wall(r.Start)).UTC().Format(timeLayout))
	l.key("id").textOrNull(r.ID)
	l.key("client_request_id").textOrNull(clientRequestID(r))
	if r.TraceID != [16]byte{} {
		l.key("trace_id").text(hex.EncodeToString(r.TraceID[:]))
	} else {
		l.key("trace_id").null()
	}
	l.key("engine").textOrNull(r.Engine)
	l.key("engine_version").textOrNull(r.EngineVersion)
	l.key("method").text(method(r))
	l.key("endpoint").text(endpoint(r))
	l.key("model").textOrNull(r.Model)
	l.key("lora").textOrNull(r.Lora)
	l.key("stream").boolOrNull(r.Stream)
	if r.Status != 0 {
		l.key("status").int(r.Status)
	} else {
		l.key("status").null()
	}
	l.key("error_type").textOrNull(r.ErrorType)
	l.key("disconnected").bool(r.Disconnected)
	l.key("finish_reason").textOrNull(r.FinishReason)
	l.key("usage").usage(r.Usage)
	if len(r.Sequences) == 1 {
		l.key("metrics").metrics(r.Sequences[0].Metrics())
	} else {
		l.key("metrics").null()
	}
	l.key("http").http(r.HTTP)
	l.key("sequences").open('[')
	for _, s := range r.Sequences {
		l.sequence(r, s)
	}
	l.close(']')
	l.key("incomplete").open('[')
	for _, s := range r.Incomplete {
		l.item().text(s)
	}
	l.close(']')
	l.close('}')
	return l.buf
}

func clientRequestID(r *request.Request) string {
	if r.HTTP == nil {
		return ""
	}
	return r.HTTP.RequestID
}

// method and endpoint are "" where the HTTP side was not seen: the schema has no null
// for them.
func method(r *request.Request) string {
	if r.HTTP == nil {
		return ""
	}
	return r.HTTP.Method
}

func endpoint(r *request.Request) string {
	switch {
	case r.HTTP == nil:
		return ""
	case r.HTTP.Route != "":
		return r.HTTP.Route
	}
	return r.HTTP.Path
}

func (l *line) sequence(r *request.Request, s *request.Sequence) {
	l.item().open('{')
	l.key("index").int(s.Index)
	l.key("engine_request_id").textOrNull(s.EngineID)
	l.key("engine_index").count(s.EngineIndex)
	l.key("finish_reason").textOrNull(s.FinishWord(r))
	l.key("prompt_tokens").count(s.PromptTokens)
	l.key("completion_tokens").count(s.CompletionTokens)
	l.key("generated_tokens").count(s.GeneratedTokens)
	l.key("cached_tokens").count(s.CachedTokens)
	l.key("preemptions").count(s.Preemptions)
	if e2e := latency.Of(r, s).E2E; e2e != nil {
		l.key("e2e_ms").float(*e2e * 1000)
	} else {
		l.key("e2e_ms").null()
	}
	l.key("metrics").metrics(s.Metrics())
	l.close('}')
}

func (l *line) usage(u *request.Usage) {
	if u == nil {
		l.null()
		return
	}
	l.open('{')
	l.key("prompt_tokens").count(u.Prompt)
	l.key("completion_tokens").count(u.Completion)
	l.key("cached_tokens").count(u.Cached)
	l.key("reasoning_tokens").count(u.Reasoning)
	l.close('}')
}

// metrics are null where none of them could be had.
func (l *line) metrics(m *request.Metrics) {
	if m.TimeToFirstTokenMs == nil && m.GenerationTimeMs == nil && m.QueueTimeMs == nil &&
		m.MeanITLMs == nil && m.TokensPerSecond == nil && m.Spec == nil {
		l.null()
		return
	}
	l.open('{')
	l.key("time_to_first_token_ms").floatOrNull(m.TimeToFirstTokenMs)
	l.key("generation_time_ms").floatOrNull(m.GenerationTimeMs)
	l.key("queue_time_ms").floatOrNull(m.QueueTimeMs)
	l.key("mean_itl_ms").floatOrNull(m.MeanITLMs)
	l.key("tokens_per_second").floatOrNull(m.TokensPerSecond)
	l.key("speculative_decoding").spec(m.Spec)
	l.close('}')
}

// spec is what vLLM makes of the same counters in a response.
//
// Source: vLLM 0.32.0, vllm/v1/metrics/stats.py, RequestSpecDecodeMetrics.to_dict.
func (l *line) spec(s *request.SpecDecoding) {
	if s == nil {
		l.null()
		return
	}
	steps, accepted := 0, 0
	for j, n := range s.Histogram {
		steps += n
		accepted += j * n
	}
	length, rate := 1.0, 0.0
	if steps != 0 {
		length = 1 + float64(accepted)/float64(steps)
	}
	if s.NumDraftTokens != 0 {
		rate = float64(accepted) / float64(s.NumDraftTokens)
	}
	l.open('{')
	l.key("mean_acceptance_length").float(length)
	l.key("draft_acceptance_rate").float(rate)
	l.key("acceptance_histogram").ints(s.Histogram)
	l.key("num_spec_steps").int(steps)
	l.key("num_accepted_draft_tokens").int(accepted)
	l.key("num_draft_tokens").int(s.NumDraftTokens)
	l.key("num_spec_tokens").int(s.NumSpecTokens)
	if len(s.PerStepAccepted) > 0 {
		l.key("per_step_accepted").ints(s.PerStepAccepted)
		l.key("per_step_drafted").ints(s.PerStepDrafted)
	}
	l.close('}')
}

func (l *line) http(h *request.Exchange) {
	if h == nil {
		l.null()
		return
	}
	since := func(t int64) {
		if t == 0 || h.FirstByte == 0 {
			l.null()
			return
		}
		l.float(float64(t-h.FirstByte) / 1e6)
	}
	l.open('{')
	l.key("request_read_ms")
	since(h.ReadEnd)
	l.key("first_byte_ms")
	since(h.FirstResponseByte)
	l.key("first_token_ms")
	since(h.FirstToken)
	l.key("end_ms")
	since(h.End)
	l.close('}')
}

// line is a JSON text under construction. A value is written after key or item.
type line struct {
	buf []byte
	// first is true where no comma is due.
	first bool
}

func (l *line) open(bracket byte) {
	l.buf = append(l.buf, bracket)
	l.first = true
}

func (l *line) close(bracket byte) {
	l.buf = append(l.buf, bracket)
	l.first = false
}

func (l *line) item() *line {
	if !l.first {
		l.buf = append(l.buf, ',')
	}
	l.first = false
	return l
}

// key writes a key; all keys are literals that need no escaping.
func (l *line) key(k string) *line {
	l.item()
	l.buf = append(l.buf, '"')
	l.buf = append(l.buf, k...)
	l.buf = append(l.buf, '"', ':')
	return l
}

func (l *line) null()           { l.buf = append(l.buf, "null"...) }
func (l *line) int(v int)       { l.buf = strconv.AppendInt(l.buf, int64(v), 10) }
func (l *line) bool(v bool)     { l.buf = strconv.AppendBool(l.buf, v) }
func (l *line) float(v float64) { l.buf = jsontext.AppendFloat(l.buf, v) }
func (l *line) text(s string)   { l.buf = jsontext.AppendString(l.buf, s) }

func (l *line) textOrNull(s string) {
	if s == "" {
		l.null()
		return
	}
	l.text(s)
}

func (l *line) boolOrNull(v *bool) {
	if v == nil {
		l.null()
		return
	}
	l.bool(*v)
}

func (l *line) floatOrNull(v *float64) {
	if v == nil {
		l.null()
		return
	}
	l.float(*v)
}

// count writes a number that is −1 where it is unknown.
func (l *line) count(v int) {
	if v < 0 {
		l.null()
		return
	}
	l.int(v)
}

func (l *line) ints(v []int) {
	l.open('[')
	for _, n := range v {
		l.item().int(n)
	}
	l.close(']')
}
