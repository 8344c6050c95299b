package spantree

import (
	"strconv"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tokenscope/tokenscope/exporters/latency"
	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/semconv"
)

// Build returns the spans of r, parents before their children. It keeps nothing of r but
// strings.
func Build(r *request.Request, o Options) []Span {
	b := builder{r: r, o: o, engine: r.Engine}
	if b.engine == "" {
		b.engine = o.Engine
	}
	b.spans = make([]Span, 0, 2+4*min(len(r.Sequences), maxSequences))
	parent := -1
	if r.HTTP != nil {
		parent = b.server()
		if op := operationOf(r.HTTP.Endpoint); op.name != "" {
			parent = b.operation(parent, op)
		}
	}
	for _, s := range r.Sequences[:min(len(r.Sequences), maxSequences)] {
		b.sequence(parent, s)
	}
	b.enclose()
	return b.spans
}

// maxSequences bounds the llm_request spans of one request. A client may ask for
// thousands of choices or embeddings at once; one trace of them all would be too large
// for the queue and for any backend. The request's line holds all.
const maxSequences = 256

type builder struct {
	r      *request.Request
	o      Options
	engine string
	spans  []Span
}

func (b *builder) add(s Span) int {
	b.spans = append(b.spans, s)
	return len(b.spans) - 1
}

// wall turns a captured time into Unix nanoseconds and keeps 0, "not seen", as it is.
func (b *builder) wall(captured int64) int64 {
	if captured == 0 {
		return 0
	}
	return b.r.Wall(captured)
}

// stamped turns an engine's stamp into Unix nanoseconds; ok is false where it was not seen
// or is of another machine's clock.
func (b *builder) stamped(s *request.Sequence, stamp float64) (ns int64, ok bool) {
	if s.ForeignClock || !latency.Valid(stamp) {
		return 0, false
	}
	return b.r.WallS(stamp), true
}

// enclose makes each parent begin no later and end no earlier than its children, and
// gives a time to what has none. Parents stand before their children, so that going
// backwards sees every child before its parent.
func (b *builder) enclose() {
	for i := len(b.spans) - 1; i >= 0; i-- {
		s := &b.spans[i]
		if s.Start == 0 {
			s.Start = b.wall(b.r.Start)
		}
		s.End = max(s.End, s.Start)
		if s.Parent < 0 {
			continue
		}
		p := &b.spans[s.Parent]
		if p.Start == 0 || s.Start < p.Start {
			p.Start = s.Start
		}
		p.End = max(p.End, s.End)
	}
}

// server is the HTTP exchange, by OpenTelemetry's conventions for HTTP server spans.
func (b *builder) server() int {
	h := b.r.HTTP
	method := h.Method
	if !registeredMethods[method] {
		method = semconv.MethodOther
	}
	var a attrs
	a.text(semconv.HTTPRequestMethod, method)
	a.cut(semconv.URLPath, h.Path, maxPath)
	scheme := semconv.SchemeHTTP
	if h.TLS {
		scheme = semconv.SchemeHTTPS
	}
	a.text(semconv.URLScheme, scheme)
	a.text(semconv.HTTPRoute, h.Route)
	if h.Status != 0 {
		a.int(semconv.HTTPResponseStatusCode, h.Status)
	}
	a.text(semconv.NetworkProtocolVersion, h.Proto)
	if h.Port != 0 {
		a.int(semconv.ServerPort, int(h.Port))
	}
	a.text(semconv.UserAgentOriginal, h.UserAgent)
	if h.SSE && h.FirstToken > h.FirstByte && h.FirstByte != 0 {
		a.float(semconv.HTTPTimeToFirstToken, float64(h.FirstToken-h.FirstByte)/1e9)
	}
	status := codes.Unset
	if cause := b.httpError(); cause != "" {
		status = codes.Error
		a.text(semconv.ErrorType, cause)
	}
	return b.add(Span{
		Name: semconv.ServerSpan(method, h.Route), Kind: trace.SpanKindServer, Parent: -1,
		Start: b.httpStart(), End: b.httpEnd(), Attributes: a, Status: status,
	})
}

// operation is what the client asked for and was told.
func (b *builder) operation(parent int, op operation) int {
	r, h := b.r, b.r.HTTP
	model := h.Model
	if model == "" {
		model = r.Model
	}
	var a attrs
	a.text(semconv.GenAIOperationName, op.name)
	a.text(semconv.GenAIProviderName, semconv.Provider(b.engine))
	if b.o.Dialect.ARMS() {
		a.text(semconv.GenAISpanKind, op.kind)
	}
	a.text(semconv.GenAIRequestModel, model)
	if n := len(r.Sequences) - maxSequences; n > 0 {
		a.int(semconv.SequencesLeftOut, n)
	}
	if n := h.Params.N; n != nil && *n != 1 {
		a.int(semconv.GenAIRequestChoiceCount, *n)
	}
	if r.Stream != nil && *r.Stream {
		a.yes(semconv.GenAIRequestStream)
	}
	a.params(&h.Params)
	a.text(semconv.GenAIResponseID, r.ID)
	a.text(semconv.GenAIResponseModel, h.ResponseModel)
	a.list(semconv.GenAIResponseFinishReasons, b.finishReasons())
	if u := r.Usage; u != nil {
		a.count(semconv.GenAIUsageInputTokens, u.Prompt)
		a.count(semconv.GenAIUsageOutputTokens, u.Completion)
		a.count(semconv.GenAIUsageCacheReadInputTokens, u.Cached)
		a.count(semconv.GenAIUsageReasoningOutputTokens, u.Reasoning)
	}
	a.text(semconv.Lora, r.Lora)
	b.common(&a)
	status := codes.Unset
	if cause := b.operationError(); cause != "" {
		status = codes.Error
		a.text(semconv.ErrorType, cause)
	}
	return b.add(Span{
		Name: semconv.OperationSpan(op.name, b.namedModel(model)), Kind: trace.SpanKindInternal, Parent: parent,
		Start: b.httpStart(), End: b.httpEnd(), Attributes: a, Status: status,
	})
}

// errorNoModel is the type of the error by which a server says that it does not have the
// model. A 404 with another type, or none, is about something else: the release has no
// such route, or no such response to go on from.
// Source: vLLM 0.32.0, vllm/entrypoints/openai/models/serving.py, check_model; recordings
// of 0.8.2 to 0.33.0 have the same.
const errorNoModel = "NotFoundError"

// namedModel is the model as it may stand in a span's name, which must not be unbounded:
// a model that the server does not have is any text that a client thought of.
func (b *builder) namedModel(model string) string {
	h := b.r.HTTP
	if h.Status == 404 && h.ErrorType == errorNoModel && len(b.r.Sequences) == 0 && model != "" {
		return semconv.Other
	}
	return clean(model, maxText)
}

// common are the attributes that tie a span to its request's line.
func (b *builder) common(a *attrs) {
	if b.r.Record != [16]byte{} {
		a.text(semconv.Record, recordID(b.r.Record))
	}
	a.list(semconv.Incomplete, b.r.Incomplete)
}

func (b *builder) httpStart() int64 {
	for _, t := range []int64{b.r.HTTP.FirstByte, b.r.HTTP.ReadEnd, b.r.Start} {
		if t != 0 {
			return b.wall(t)
		}
	}
	return 0
}

func (b *builder) httpEnd() int64 {
	if b.r.HTTP.End != 0 {
		return b.wall(b.r.HTTP.End)
	}
	return b.wall(b.r.End)
}

// httpError says why the exchange failed as HTTP sees it: 4xx is the client's own
// failure and none of a server span's.
func (b *builder) httpError() string {
	h := b.r.HTTP
	switch {
	case h.Status >= 500:
		return strconv.Itoa(h.Status)
	case h.Complete:
		return ""
	case b.r.Disconnected:
		return semconv.ErrorTypeClientDisconnect
	case b.r.ErrorType == semconv.ErrorTypeEngineDead:
		return semconv.ErrorTypeEngineDead
	case h.ServerClosed:
		return semconv.ErrorTypeServerClosed
	}
	return ""
}

// operationError says why the operation failed: here 4xx counts, and so does an error
// event in a stream that HTTP takes for a success.
func (b *builder) operationError() string {
	if b.r.ErrorType != "" {
		return b.r.ErrorType
	}
	if s := b.r.HTTP.Status; s >= 400 {
		return strconv.Itoa(s)
	}
	return b.httpError()
}

// finishReasons are the API's words, by choice; where the response was not seen, the
// engine's.
func (b *builder) finishReasons() []string {
	for _, f := range b.r.HTTP.FinishReasons {
		if f != "" {
			return b.r.HTTP.FinishReasons
		}
	}
	var words []string
	for _, s := range b.r.Sequences {
		words = append(words, s.FinishWord(b.r))
	}
	return words
}

// params are the sampling parameters that both kinds of span carry.
func (a *attrs) params(p *request.Params) {
	a.optInt(semconv.GenAIRequestMaxTokens, p.MaxTokens)
	a.optFloat(semconv.GenAIRequestTemperature, p.Temperature)
	a.optFloat(semconv.GenAIRequestTopP, p.TopP)
	a.optInt(semconv.GenAIRequestTopK, p.TopK)
	if p.Seed != nil {
		*a = append(*a, semconv.GenAIRequestSeed.Int64(*p.Seed))
	}
	a.optFloat(semconv.GenAIRequestFrequencyPenalty, p.FrequencyPenalty)
	a.optFloat(semconv.GenAIRequestPresencePenalty, p.PresencePenalty)
}

type operation struct{ name, kind string }

// operations are the operation and ARMS' span kind of each Endpoint; none for
// EndpointOther, of which nothing is known. ARMS counts scores as reranking.
var operations = [...]operation{
	request.EndpointChat:        {semconv.OperationChat, semconv.KindLLM},
	request.EndpointCompletions: {semconv.OperationTextCompletion, semconv.KindLLM},
	request.EndpointResponses:   {semconv.OperationChat, semconv.KindLLM},
	request.EndpointMessages:    {semconv.OperationChat, semconv.KindLLM},
	request.EndpointEmbeddings:  {semconv.OperationEmbeddings, semconv.KindEmbedding},
	request.EndpointRerank:      {semconv.OperationRerank, semconv.KindReranker},
	request.EndpointScore:       {semconv.OperationRerank, semconv.KindReranker},
	request.EndpointPooling:     {semconv.OperationPooling, semconv.KindEmbedding},
	request.EndpointClassify:    {semconv.OperationClassify, ""},
	request.EndpointGenerate:    {semconv.OperationTextCompletion, semconv.KindLLM},
}

func operationOf(e request.Endpoint) operation {
	if int(e) < len(operations) {
		return operations[e]
	}
	return operation{}
}

// registeredMethods are the methods that http.request.method may name.
var registeredMethods = map[string]bool{
	"CONNECT": true, "DELETE": true, "GET": true, "HEAD": true, "OPTIONS": true,
	"PATCH": true, "POST": true, "PUT": true, "QUERY": true, "TRACE": true,
}
