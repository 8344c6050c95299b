package vllm

import (
	"github.com/tinylib/msgp/msgp"

	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/probes/stream"
)

const (
	// minAddFields is less than any release's ADD has (10): what is shorter is something
	// else.
	minAddFields = 8
	// maxAddFields bounds what is looked at of an ADD; the longest known has 22.
	maxAddFields = 64
)

// Values that SamplingParams has where its map does not name them: defaults are left
// out (vLLM 0.8.2 to 0.33.0, vllm/sampling_params.py).
const (
	defaultN           = 1
	defaultMaxTokens   = 16
	defaultTemperature = 1.0
	defaultTopP        = 1.0
)

// outputKindDelta is RequestOutputKind.DELTA: the front-end streams.
const outputKindDelta = 1

// looksLikeAdd reports whether an unknown sender's payload is an ADD.
func looksLikeAdd(p *stream.Part) bool {
	c := cursor(p.Head())
	n, err := c.array()
	if err != nil || n < minAddFields {
		return false
	}
	_, err = c.str()
	return err == nil
}

// add decodes an ADD: EngineCoreRequest.
func (d *Decoder) add(m *stream.Message, side request.Side, payload *stream.Part) {
	c := cursor(payload.Head())
	total, err := c.array()
	if err == nil && total < minAddFields {
		err = errForm
	}
	d.fields = d.fields[:0]
	for i := 0; i < total && i < maxAddFields && err == nil; i++ {
		f := field{kind: c.kind()}
		if f.raw, err = c.take(); err != nil {
			f.raw = c
		}
		if len(c) > 0 || err == nil {
			d.fields = append(d.fields, f)
		}
	}
	cut := err == errShort && !payload.Complete()
	var id []byte
	if err == nil || cut {
		// Without the id the rest is of no use, cut or not.
		var first cursor
		if len(d.fields) > 0 {
			first = d.fields[0].raw
		}
		id, err = first.str()
		cut = cut && err == nil
	}
	if err != nil {
		d.fail(m, side, &d.stats.Add, at("ADD", payload, c, err))
		return
	}

	positions, ok := layoutPositions(d.fields, total)
	if !ok {
		positions = guessPositions(d.fields)
	}
	add := request.Add{
		Time: m.Time, PID: m.PID, Side: side, Engine: engineName, ID: id,
		Suffixed: total >= suffixedFields, PromptTokens: -1, Cut: cut,
	}
	fillAdd(&add, d.fields, positions)
	d.stats.Add.count(cut)
	d.sink.Add(&add)
}

// fillAdd takes the fields at the positions.
func fillAdd(add *request.Add, fields []field, p addPositions) {
	at := func(i int) field {
		if i < 0 || i >= len(fields) {
			return field{kind: msgp.NilType}
		}
		return fields[i]
	}
	if n, ok := at(p.prompt).array(); ok {
		add.PromptTokens = n
	}
	arrival := at(p.arrival).raw
	if s, err := arrival.number(); err == nil && s > 0 {
		add.ArrivalS, add.HasArrival = s, true
	}
	if sampling := at(p.sampling); sampling.kind == msgp.MapType {
		add.Params = samplingParams(sampling.raw)
	} else {
		add.Pooling = !at(p.pooling).null()
	}
	if lora := at(p.lora); lora.firstElement() == msgp.StrType {
		_, _ = lora.raw.array()
		add.Lora, _ = lora.raw.str()
	}
	priority := at(p.priority).raw
	if n, err := priority.integer(); err == nil && n == int64(int32(n)) {
		add.Priority = int(n)
	}
	if s := stringOf(at(p.external)); len(s) > 0 {
		add.External = s
	}
}

// samplingParams reads the map of SamplingParams. If it ends early, nothing is said of
// the keys behind.
func samplingParams(c cursor) request.Params {
	// One allocation for all that the pointers point at: the sink may keep them.
	v := &struct {
		n, maxTokens, topK                int
		seed                              int64
		temperature, topP, frequency, pre float64
		stream                            bool
	}{n: defaultN, maxTokens: defaultMaxTokens, temperature: defaultTemperature, topP: defaultTopP}
	p := request.Params{N: &v.n, MaxTokens: &v.maxTokens, Temperature: &v.temperature, TopP: &v.topP}

	n, err := c.dict()
	for i := 0; i < n && err == nil; i++ {
		var key, value cursor
		if key, err = c.take(); err != nil {
			break
		}
		if value, err = c.take(); err != nil {
			break
		}
		switch name, _ := key.str(); string(name) {
		case "n":
			p.N = value.intPointer(&v.n)
		case "max_tokens": // nil: no limit but the model's
			p.MaxTokens = value.intPointer(&v.maxTokens)
		case "temperature":
			p.Temperature = value.floatPointer(&v.temperature)
		case "top_p":
			p.TopP = value.floatPointer(&v.topP)
		case "top_k":
			p.TopK = value.intPointer(&v.topK)
		case "seed":
			if seed, err := value.integer(); err == nil {
				v.seed = seed
				p.Seed = &v.seed
			}
		case "frequency_penalty":
			p.FrequencyPenalty = value.floatPointer(&v.frequency)
		case "presence_penalty":
			p.PresencePenalty = value.floatPointer(&v.pre)
		case "output_kind":
			if kind, err := value.integer(); err == nil {
				v.stream = kind == outputKindDelta
				p.Stream = &v.stream
			}
		}
	}
	if err == nil {
		return p
	}
	// What has not been read may have been said behind the end.
	return request.Params{}
}

// intPointer reads an integer into v; nil where there is none.
func (c cursor) intPointer(v *int) *int {
	n, err := c.integer()
	if err != nil || n != int64(int(n)) {
		return nil
	}
	*v = int(n)
	return v
}

// floatPointer reads a number into v; nil where there is none.
func (c cursor) floatPointer(v *float64) *float64 {
	f, err := c.number()
	if err != nil {
		return nil
	}
	*v = f
	return v
}
