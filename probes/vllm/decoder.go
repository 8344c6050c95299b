package vllm

import (
	"bytes"
	"hash/maphash"

	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/probes/capture"
	"github.com/tokenscope/tokenscope/probes/stream"
)

// identityBytes is the length of an engine's ZeroMQ identity: its rank, little endian.
const identityBytes = 2

// maxSockets is how many sockets are remembered. There are a few per engine and
// front-end; the bound is against processes that open one after the other.
const maxSockets = 4096

// engineName is what Requests call the engine.
const engineName = "vllm-v1"

// deadMessage is an engine core's last word.
const deadMessage = "ENGINE_CORE_DEAD"

// Decoder turns messages into inputs of an EngineSink. It is a stream.Sink, and not
// safe for concurrent use.
type Decoder struct {
	sink    request.EngineSink
	stats   Stats
	lastErr error
	sockets map[socketKey]*socket
	seed    maphash.Seed

	// step, events and ids are handed to the sink, and used again.
	step   request.Step
	events []request.EngineEvent
	ids    [][]byte
	fields []field
	// plain and scheduler are what came before and may come again (repeat.go).
	plain     plainFields
	scheduler schedulerStats
}

// NewDecoder returns a Decoder that calls sink.
func NewDecoder(sink request.EngineSink) *Decoder {
	return &Decoder{sink: sink, sockets: make(map[socketKey]*socket), seed: maphash.MakeSeed()}
}

// Stats counts messages by what they are.
type Stats struct {
	Add, Outputs, Abort, Ready, Dead Counts
	// Control are messages that say nothing about requests: utility calls and their
	// answers, data-parallel waves.
	Control uint64
	// Handshake are greetings and address lists at the start of an engine.
	Handshake uint64
	// Repeated are outputs that were sent again because the socket was not ready.
	Repeated uint64
	// Unknown are messages that are none of vLLM's.
	Unknown uint64
}

// Counts are of one kind of message.
type Counts struct {
	// Decoded were handed on; Cut are those of them that were not captured whole.
	Decoded, Cut uint64
	// Failed could not be understood.
	Failed uint64
}

// Stats returns the counters; it is to be called on the goroutine that calls Message.
func (d *Decoder) Stats() Stats { return d.stats }

// LastError says what was wrong with the last message that could not be understood; nil
// if there was none. It names kinds and offsets, never content.
func (d *Decoder) LastError() error { return d.lastErr }

// socketKey names one direction of a socket, as package stream does.
type socketKey struct {
	pid  uint32
	kind capture.Kind
	conn uint64
}

// carries says what was seen on one direction of a socket.
type carries uint8

const (
	carriesUnknown  carries = iota // nothing of vLLM's yet
	carriesRequests                // ADD, ABORT and the like
	carriesOutputs
	carriesStart // ready messages and handshakes, and nothing about requests
)

// socket is what is remembered of one direction of a socket.
type socket struct {
	carries carries
	side    request.Side
	// last is the hash of the last outputs message that has the engine's time.
	last uint64
}

func keyOf(m *stream.Message) socketKey {
	return socketKey{pid: m.PID, kind: m.Kind, conn: m.Conn}
}

// Message decodes one message.
func (d *Decoder) Message(m *stream.Message) {
	parts := unrepeated(m.Parts)
	switch m.Kind {
	case capture.KindSend:
		d.sent(m, parts)
	case capture.KindRecv:
		d.received(m, parts)
	}
}

// sent decodes a message that the process sends.
func (d *Decoder) sent(m *stream.Message, parts []stream.Part) {
	switch {
	case len(parts) >= 3 && parts[0].Len == identityBytes && parts[1].Len == 1 && may(m, capture.SocketRouter):
		d.request(m, request.FrontEnd, &parts[1], &parts[2])
	case len(parts) >= 2 && parts[0].Len == 1 && may(m, capture.SocketPush):
		d.request(m, request.FrontEnd, &parts[0], &parts[1])
	case len(parts) >= 1 && may(m, capture.SocketPush) && isArray(&parts[0]):
		d.outputs(m, request.Core, &parts[0])
	case len(parts) == 1 && may(m, capture.SocketPush) && isDead(&parts[0]):
		d.dead(m, request.Core)
	case len(parts) == 1 && may(m, capture.SocketDealer):
		d.start(m, request.Core, &parts[0])
	case len(parts) == 2 && parts[0].Len == identityBytes && may(m, capture.SocketRouter):
		d.start(m, request.FrontEnd, &parts[1])
	default:
		d.stats.Unknown++
	}
}

// received decodes a message that the process receives.
func (d *Decoder) received(m *stream.Message, parts []stream.Part) {
	switch {
	case len(parts) >= 2 && parts[0].Len == 1 && may(m, capture.SocketDealer, capture.SocketPull):
		d.request(m, request.Core, &parts[0], &parts[1])
	case len(parts) >= 1 && may(m, capture.SocketPull) && isArray(&parts[0]):
		d.outputs(m, request.FrontEnd, &parts[0])
	case len(parts) == 1 && may(m, capture.SocketPull) && isDead(&parts[0]):
		d.dead(m, request.FrontEnd)
	case len(parts) == 2 && parts[0].Len == identityBytes && may(m, capture.SocketRouter):
		d.start(m, request.FrontEnd, &parts[1])
	case len(parts) == 1 && may(m, capture.SocketDealer):
		d.start(m, request.Core, &parts[0])
	default:
		d.stats.Unknown++
	}
}

// may reports whether the message's socket is of one of the types, as far as is known.
func may(m *stream.Message, types ...capture.SocketType) bool {
	for _, t := range types {
		if m.Socket == t {
			return true
		}
	}
	return m.Socket == capture.SocketUnknown
}

// unrepeated leaves out repetitions of a first part, which a send that is tried again
// shows (see package stream). No message of vLLM's begins with two equal parts of one or
// two bytes: an identity is followed by a type of one byte, a type by an array of several.
func unrepeated(parts []stream.Part) []stream.Part {
	for len(parts) >= 2 && parts[0].Len <= identityBytes && bytes.Equal(parts[0].Data, parts[1].Data) {
		parts = parts[1:]
	}
	return parts
}

func isArray(p *stream.Part) bool {
	c := cursor(p.Head())
	_, err := c.array()
	return err == nil
}

func isDead(p *stream.Part) bool { return string(p.Data) == deadMessage }

// remember notes what a socket carries, and returns it.
func (d *Decoder) remember(m *stream.Message, what carries, side request.Side) *socket {
	key := keyOf(m)
	s := d.sockets[key]
	if s == nil {
		if len(d.sockets) >= maxSockets {
			// Forgetting costs nothing but a wrong guess at the next gap.
			clear(d.sockets)
		}
		s = new(socket)
		d.sockets[key] = s
	}
	// 0.9.0 greets on the socket that later carries requests.
	if s.carries == carriesUnknown || what != carriesStart {
		s.carries, s.side = what, side
	}
	return s
}

// Gap says that messages on a socket are lost. Only those of sockets that carry requests
// or outputs matter.
func (d *Decoder) Gap(g *stream.Gap) {
	if s := d.sockets[socketKey{pid: g.PID, kind: g.Kind, conn: g.Conn}]; s != nil {
		if s.carries == carriesRequests || s.carries == carriesOutputs {
			d.sink.EngineGap(g.Time, g.PID, s.side)
		}
		return
	}
	// Nothing was understood on it so far; the type tells what it may have carried.
	switch {
	case g.Kind == capture.KindSend && g.Socket == capture.SocketRouter,
		g.Kind == capture.KindRecv && g.Socket == capture.SocketPull:
		d.sink.EngineGap(g.Time, g.PID, request.FrontEnd)
	case g.Kind == capture.KindSend && g.Socket == capture.SocketPush,
		g.Kind == capture.KindRecv && g.Socket == capture.SocketDealer:
		d.sink.EngineGap(g.Time, g.PID, request.Core)
	case g.Socket == capture.SocketUnknown:
		d.gapOfProcess(g.Time, g.PID)
	}
}

// gapOfProcess reports a gap on each side that the process is known to be.
func (d *Decoder) gapOfProcess(time int64, pid uint32) {
	var frontEnd, core bool
	for key, s := range d.sockets {
		if key.pid == pid && s.carries != carriesUnknown {
			frontEnd = frontEnd || s.side == request.FrontEnd
			core = core || s.side == request.Core
		}
	}
	if frontEnd {
		d.sink.EngineGap(time, pid, request.FrontEnd)
	}
	if core {
		d.sink.EngineGap(time, pid, request.Core)
	}
}

// Exit forgets the sockets of a process.
func (d *Decoder) Exit(pid uint32) {
	for key := range d.sockets {
		if key.pid == pid {
			delete(d.sockets, key)
		}
	}
}

// fail counts a message that could not be understood. Counts of what is in flight are
// not to be trusted after it.
func (d *Decoder) fail(m *stream.Message, side request.Side, counts *Counts, err error) {
	counts.Failed++
	d.lastErr = err
	d.sink.EngineGap(m.Time, m.PID, side)
}
