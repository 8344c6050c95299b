package vllm

import (
	"bytes"

	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/probes/stream"
)

// Types of request messages (vLLM 0.32.0, vllm/v1/engine/__init__.py, EngineCoreRequestType).
// In 0.8.2 UTILITY is 2; it and START_DP_WAVE are passed over alike.
const (
	typeAdd   = 0
	typeAbort = 1
	// typeLast is the last one known: WAKEUP. Those from 2 on say nothing about requests.
	typeLast = 5
)

// maxAbortIDs bounds an ABORT's ids: more than a front-end has in flight.
const maxAbortIDs = 16384

// request decodes a message from the front-end to the core.
func (d *Decoder) request(m *stream.Message, side request.Side, typ, payload *stream.Part) {
	known := d.sockets[keyOf(m)]
	ours := known != nil && known.carries == carriesRequests
	if len(typ.Data) != 1 || typ.Data[0] > typeLast {
		d.stats.Unknown++
		return
	}
	switch t := typ.Data[0]; {
	case t == typeAdd && (ours || looksLikeAdd(payload)):
		d.remember(m, carriesRequests, side)
		d.add(m, side, payload)
	case t == typeAbort && (ours || looksLikeAbort(payload)):
		d.remember(m, carriesRequests, side)
		d.abort(m, side, payload)
	case t > typeAbort && isArray(payload):
		d.remember(m, carriesRequests, side)
		d.stats.Control++
	case ours:
		d.stats.Control++
	default:
		d.stats.Unknown++
	}
}

// looksLikeAbort reports whether an unknown sender's payload is an array of strings.
func looksLikeAbort(p *stream.Part) bool {
	c := cursor(p.Head())
	n, err := c.array()
	if err != nil {
		return false
	}
	if n == 0 {
		return len(c) == 0
	}
	_, err = c.str()
	return err == nil
}

// abort decodes an ABORT: an array of request ids.
func (d *Decoder) abort(m *stream.Message, side request.Side, payload *stream.Part) {
	c := cursor(payload.Head())
	n, err := c.array()
	d.ids = d.ids[:0]
	for i := 0; i < n && err == nil; i++ {
		if len(d.ids) == maxAbortIDs {
			err = errForm
			break
		}
		var id []byte
		if id, err = c.str(); err == nil {
			d.ids = append(d.ids, id)
		}
	}
	cut := err == errShort && !payload.Complete()
	if err != nil && !cut {
		d.fail(m, side, &d.stats.Abort, at("ABORT", payload, c, err))
		return
	}
	d.stats.Abort.count(cut)
	d.sink.Abort(&request.Abort{Time: m.Time, PID: m.PID, Side: side, IDs: d.ids, Cut: cut})
}

// dead passes on that the engine core has failed.
func (d *Decoder) dead(m *stream.Message, side request.Side) {
	d.remember(m, carriesOutputs, side)
	d.stats.Dead.count(false)
	d.sink.Dead(&request.Dead{Time: m.Time, PID: m.PID, Side: side})
}

// start decodes what is sent once when an engine starts, on DEALER and ROUTER sockets: a
// map that describes the engine, or a part of the handshake.
//
// The engine's map is EngineCoreReadyResponse (0.20 and later), before that the READY of
// the handshake, which has the number of blocks. 0.8.5 sends the bare word READY, and
// releases up to 0.19 an empty part to open the socket.
func (d *Decoder) start(m *stream.Message, side request.Side, p *stream.Part) {
	c := cursor(p.Head())
	n, err := c.dict()
	if err != nil {
		if p.Len == 0 || bytes.Equal(p.Data, []byte("READY")) {
			d.stats.Handshake++
		} else {
			d.stats.Unknown++
		}
		return
	}

	ready := request.Ready{Time: m.Time, PID: m.PID, Side: side, Engine: engineName}
	var handshake, described bool
	for i := 0; i < n && err == nil; i++ {
		var key, value cursor
		if key, err = c.take(); err != nil {
			break
		}
		if value, err = c.take(); err != nil {
			break
		}
		switch name, _ := key.str(); string(name) {
		case "max_model_len":
			ready.MaxModelLen, described = value.positive(), true
		case "num_gpu_blocks":
			ready.NumBlocks, described = value.positive(), true
		case "vllm_version":
			version, _ := value.str()
			ready.Version, described = string(version), true
		case "status", "addresses":
			handshake = true
		}
	}
	cut := err == errShort && !p.Complete()
	switch {
	case err != nil && !cut && !described && !handshake:
		d.stats.Unknown++
	case err != nil && !cut:
		// Nothing about requests is lost: no gap.
		d.stats.Ready.Failed++
		d.lastErr = at("ready message", p, c, err)
	case described:
		d.remember(m, carriesStart, side)
		d.stats.Ready.count(cut)
		d.sink.Ready(&ready)
	case handshake:
		d.remember(m, carriesStart, side)
		d.stats.Handshake++
	default:
		d.stats.Unknown++
	}
}

func (c *Counts) count(cut bool) {
	c.Decoded++
	if cut {
		c.Cut++
	}
}
