package vllm

import (
	"hash/maphash"

	"github.com/tinylib/msgp/msgp"

	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/probes/capture"
	"github.com/tokenscope/tokenscope/probes/stream"
)

const (
	// maxOutputs bounds one message's outputs, and maxEvents their events: far more than
	// an engine runs at a time (some thousand). A hostile message of the size that is
	// captured could else have many more tiny ones than bytes would suggest.
	maxOutputs = 16384
	maxEvents  = 65536
	// maxSpecPositions bounds the lists of speculative-decoding counters: one element a
	// step of the request, at most.
	maxSpecPositions = 16384
	// minOutputsFields is the shortest EngineCoreOutputs (0.8.2).
	minOutputsFields = 4
)

// finishUnknown is handed on for a finish reason that is no number we can carry: the
// request did end.
const finishUnknown request.FinishReason = 127

// Fields of EngineCoreOutput. The id and the new tokens are 0 and 1 in every release.
// Source: vllm/v1/engine/__init__.py of each release, 0.8.2 to 0.33.0.
const (
	fieldPooling = 4 // from 0.9.2, where those behind moved by one
	fieldFinish  = 5
	fieldEvents  = 7
	// firstLateField is where the fields begin that move from release to release.
	firstLateField = 8
	// fieldSpec has a map only where the release has spec_decode_metrics (0.29).
	fieldSpec = 16
	// poolingFields is the length from which there is a pooling output (0.9.2), and
	// suffixedOutputFields the length from which ids have a random suffix (0.14).
	poolingFields        = 10
	suffixedOutputFields = 13
)

// cachedField is where an output of n fields has the number of cached tokens as an
// integer (0.9 to 0.19; later releases have a map, prefill_stats, that is known by its
// keys); −1 where it has none. From 13 fields on a release has the one or the other.
func cachedField(n int) int {
	switch {
	case n < 9 || n > 14:
		return -1
	case n == 9:
		return 8
	case n == 10:
		return 9
	}
	return 10
}

// outputs decodes the core's answer to one step: EngineCoreOutputs.
func (d *Decoder) outputs(m *stream.Message, side request.Side, payload *stream.Part) {
	c := cursor(payload.Head())
	total, _ := c.array()
	// Releases up to 0.8.2 begin with the outputs, all others with the engine's index.
	engineIndex, before := -1, 0
	if c.kind() != msgp.ArrayType {
		if n, err := c.integer(); err == nil && n == int64(int32(n)) {
			engineIndex, before = int(n), 1
		}
	}
	if total < minOutputsFields || !startsOutputs(c, before > 0) {
		if s := d.sockets[keyOf(m)]; s != nil && s.carries == carriesOutputs {
			d.fail(m, side, &d.stats.Outputs, at("outputs", payload, c, errForm))
		} else {
			d.stats.Unknown++
		}
		return
	}

	s := d.remember(m, carriesOutputs, side)
	d.events = d.events[:0]
	d.step = request.Step{
		Time: m.Time, PID: m.PID, Side: side, EngineIndex: engineIndex,
		Outputs: d.step.Outputs[:0], Running: -1, Waiting: -1,
	}
	err := d.readOutputs(&c)
	allOutputs := err == nil
	if err == nil {
		err = d.readStats(&c)
	}
	if err == nil {
		err = d.readTimestamp(&c)
	}
	understood := err == nil
	// What follows says nothing about requests, but a message that is not well formed to
	// its end may not be what it seems.
	for i := before + 3; i < total && err == nil; i++ {
		err = c.skip()
	}
	cut := err == errShort && !payload.Complete()
	if err != nil && !cut {
		d.fail(m, side, &d.stats.Outputs, at("outputs", payload, c, err))
		return
	}
	d.step.Cut = cut && !understood
	if m.Kind == capture.KindSend && d.repeated(s, payload) {
		d.stats.Repeated++
		return
	}
	if allOutputs && len(d.step.Outputs) == 0 && d.step.Running < 0 {
		d.stats.Control++
		return
	}
	d.stats.Outputs.count(d.step.Cut)
	d.sink.Step(&d.step)
}

// startsOutputs reports whether c is at an array of outputs: none, or the first is an
// array as well. Behind an engine's index there may be nil instead.
func startsOutputs(c cursor, indexed bool) bool {
	if c.null() {
		return indexed
	}
	n, err := c.array()
	if err != nil {
		return false
	}
	first := c.kind()
	return n == 0 || first == msgp.ArrayType || first == msgp.InvalidType
}

// repeated reports whether the outputs were sent already, by a send that was refused
// (see package stream). Each message has its step's time in nanoseconds, so that equal
// bytes are the same message.
func (d *Decoder) repeated(s *socket, payload *stream.Part) bool {
	if !d.step.HasTimestamp {
		return false
	}
	hash := maphash.Bytes(d.seed, payload.Data)
	if hash == s.last {
		return true
	}
	s.last = hash
	return false
}

// readOutputs reads the array of outputs.
func (d *Decoder) readOutputs(c *cursor) error {
	if c.null() {
		return nil
	}
	n, err := c.array()
	if err != nil {
		return err
	}
	for i := 0; i < n; i++ {
		if i == maxOutputs {
			return errForm
		}
		if err := d.readOutput(c); err != nil {
			return err
		}
	}
	return nil
}

// readOutput reads one EngineCoreOutput, and appends it to the step's once it is whole.
func (d *Decoder) readOutput(c *cursor) error {
	n, err := c.array()
	if err != nil {
		return err
	}
	if n < 2 {
		return errForm
	}
	o := request.Output{Finish: request.FinishNone, Cached: -1, Prompt: -1, Suffixed: n >= suffixedOutputFields}
	if o.ID, err = c.str(); err != nil {
		return err
	}
	if o.Tokens, err = readTokens(c); err != nil {
		return err
	}
	if d.plain.skip(c, n) {
		d.step.Outputs = append(d.step.Outputs, o)
		return nil
	}
	behindTokens := *c
	moved := 0 // by how much fields come earlier than from 0.9.2 on
	if n < poolingFields {
		moved = 1
	}
	cached := cachedField(n)
	for i := 2; i < n; i++ {
		if c.null() { // most fields of most outputs
			continue
		}
		switch {
		case i == fieldPooling && moved == 0:
			err = c.skip()
			o.Pooling = true
		case i == fieldFinish-moved:
			o.Finish, err = readFinish(c)
		case i == fieldEvents-moved:
			o.Events, err = d.readEvents(c)
		case i == cached && isInteger(c.kind()):
			var value cursor
			value, err = c.take()
			o.Cached = value.count()
		case i == fieldSpec && c.kind() == msgp.MapType:
			o.Spec, err = readSpec(c)
		case i > firstLateField && c.kind() == msgp.MapType:
			err = readPrefill(c, &o)
		default:
			err = c.skip()
		}
		if err != nil {
			return err
		}
	}
	d.plain.learn(&o, n, behindTokens[:len(behindTokens)-len(*c)])
	d.step.Outputs = append(d.step.Outputs, o)
	return nil
}

// readTokens reads the array of new token ids: how many there are.
func readTokens(c *cursor) (int, error) {
	if c.null() {
		return 0, nil
	}
	rest := *c
	n, err := rest.array()
	if err != nil {
		return 0, err
	}
	for i := 0; i < n; i++ {
		if err := rest.skip(); err != nil {
			return 0, err
		}
	}
	*c = rest
	return n, nil
}

// readFinish reads a finish reason that is there.
func readFinish(c *cursor) (request.FinishReason, error) {
	value, err := c.take()
	if err != nil {
		return request.FinishNone, err
	}
	n, err := value.integer()
	if err != nil || n < 0 || n > int64(finishUnknown) {
		return finishUnknown, nil
	}
	return request.FinishReason(n), nil
}

// readEvents reads an array of scheduler events: maps of type and timestamp. An event
// that is something else is passed over.
func (d *Decoder) readEvents(c *cursor) ([]request.EngineEvent, error) {
	list, err := c.take()
	if err != nil {
		return nil, err
	}
	n, err := list.array()
	if err != nil {
		return nil, nil
	}
	from := len(d.events)
	for i := 0; i < n && len(d.events) < maxEvents; i++ {
		entries, err := list.dict()
		if err != nil {
			if list.skip() != nil {
				break
			}
			continue
		}
		var typ int64
		var ts float64
		for j := 0; j < entries; j++ {
			key, _ := list.take()
			value, _ := list.take()
			switch name, _ := key.str(); string(name) {
			case "type":
				typ, _ = value.integer()
			case "timestamp":
				ts, _ = value.number()
			}
		}
		if typ > 0 && typ <= 0xff && ts > 0 {
			d.events = append(d.events, request.EngineEvent{Type: request.EventType(typ), TS: ts})
		}
	}
	return d.events[from:len(d.events):len(d.events)], nil
}

// readPrefill reads a map that is prefill_stats if it has its keys, and is passed over if
// it has not.
func readPrefill(c *cursor, o *request.Output) error {
	m, err := c.take()
	if err != nil {
		return err
	}
	n, _ := m.dict()
	for i := 0; i < n; i++ {
		key, _ := m.take()
		value, _ := m.take()
		switch name, _ := key.str(); string(name) {
		case "num_cached_tokens":
			o.Cached = value.count()
		case "num_prompt_tokens":
			o.Prompt = value.count()
		}
	}
	return nil
}

// readSpec reads a map that is spec_decode_metrics; nil if it has none of its keys.
func readSpec(c *cursor) (*request.SpecDecoding, error) {
	m, err := c.take()
	if err != nil {
		return nil, err
	}
	spec := new(request.SpecDecoding)
	known := false
	n, _ := m.dict()
	for i := 0; i < n; i++ {
		key, _ := m.take()
		value, _ := m.take()
		switch name, _ := key.str(); string(name) {
		case "num_spec_tokens":
			spec.NumSpecTokens, known = value.positive(), true
		case "num_draft_tokens":
			spec.NumDraftTokens, known = value.positive(), true
		case "histogram":
			spec.Histogram, known = value.counts(), true
		case "per_step_accepted":
			spec.PerStepAccepted = value.counts()
		case "per_step_drafted":
			spec.PerStepDrafted = value.counts()
		}
	}
	if !known {
		return nil, nil
	}
	return spec, nil
}

// readStats reads the scheduler's statistics: a map, or nil where there are none.
func (d *Decoder) readStats(c *cursor) error {
	if d.scheduler.skip(c) {
		d.step.Running, d.step.Waiting = d.scheduler.running, d.scheduler.waiting
		return nil
	}
	m, err := c.take()
	if err != nil {
		return err
	}
	raw, skipped := m, 0
	n, err := m.dict()
	if err != nil {
		return nil
	}
	for i := 0; i < n; i++ {
		key, _ := m.take()
		value, _ := m.take()
		switch name, _ := key.str(); string(name) {
		case "num_running_reqs":
			d.step.Running = value.count()
		case "num_waiting_reqs":
			d.step.Waiting = value.count()
		case "num_skipped_waiting_reqs": // waiting too, but passed over in this step
			skipped = value.positive()
		}
	}
	if d.step.Waiting >= 0 {
		d.step.Waiting += skipped
	}
	d.scheduler.learn(raw, d.step.Running, d.step.Waiting)
	return nil
}

// readTimestamp reads the engine's time of the step.
func (d *Decoder) readTimestamp(c *cursor) error {
	value, err := c.take()
	if err != nil {
		return err
	}
	if ts, err := value.number(); err == nil && ts > 0 {
		d.step.TimestampS, d.step.HasTimestamp = ts, true
	}
	return nil
}
