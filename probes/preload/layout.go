package preload

// The shared memory, as shim/ring.h has it; layout_test.go compares the two.

import (
	"structs"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// Constants of ring.h.
const (
	ringMagic       = 0x31474e4952535424
	ringVersion     = 1
	ringHeaderBytes = 65536
	ringProcesses   = 960
	recordAlign     = 64
)

// Kinds of records that are no capture.Kind. The others are numbered alike.
const (
	// kindFork ends here: whoever runs on with its parent's program has no exec by which
	// it would be known.
	kindFork = capture.Kind(200)
)

// States of a record. Anything else is what an earlier lap left there.
const (
	recordReserved  = 1
	recordCommitted = 2
)

// Flags of a record.
const (
	recordMore = 1 << iota
	recordPeer
	recordTLS
)

// recordHeader is struct record.
type recordHeader struct {
	_        structs.HostLayout
	Position uint64
	Size     uint32
	State    uint32
	TimeNs   uint64
	Conn     uint64
	Seq      uint64
	Len      uint32
	Captured uint32
	Pid      uint32
	Tid      uint32
	Tail     uint16
	Port     uint16
	Kind     uint8
	Socket   int8
	Flags    uint8
	_        uint8
}

const recordHeaderBytes = 64

// ringProcess is struct ring_process.
type ringProcess struct {
	_            structs.HostLayout
	Pid          uint32
	Parent       uint32
	RegisteredNs uint64
	WantReceives uint32
	Version      uint32
	_            [5]uint64
}

// ringHeader is struct ring_header.
type ringHeader struct {
	_           structs.HostLayout
	Magic       uint64
	Version     uint32
	HeaderBytes uint32
	DataBytes   uint64
	Nonce       uint64
	HeadBytes   uint32
	TailBytes   uint32
	FrameBytes  uint32
	_           uint32
	_           [2]uint64

	Epoch uint32
	_     [15]uint32

	Head uint64
	_    [7]uint64
	Tail uint64
	_    [7]uint64

	RingFull   uint64
	TableFull  uint64
	Nested     uint64
	TLS        uint64
	HTTP2      uint64
	Other      uint64
	Refused    uint64
	Unresolved uint64

	_ [16 * 8]uint64

	Processes [ringProcesses]ringProcess
}
