package preload

// The supervisor's side of the ring: making its file, and keeping it.

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/tokenscope/tokenscope/probes/backend"
)

// maxDataBytes bounds the data of a ring, also of one that somebody else made.
const maxDataBytes = backend.MaxRingBytes

// RingOptions say how much the ring holds, and of what. Zero values are the defaults of
// package backend.
type RingOptions struct {
	// HeadBytes and TailBytes are how much is captured of a piece of HTTP that is
	// longer than both together, and of a frame longer than FrameBytes.
	HeadBytes, TailBytes int
	// FrameBytes is up to which length a ZeroMQ frame is captured whole.
	FrameBytes int
	// RingBytes is the size of the ring, rounded up to a power of two.
	RingBytes int
	// Dirs are where the file is made if it cannot be in memory alone. nil:
	// /dev/shm, $XDG_RUNTIME_DIR, $TMPDIR, /tmp, /var/tmp.
	Dirs []string

	// For tests: what a process that may not make files in memory would be like.
	memfd func(name string, flags int) (int, error)
}

// Ring is the memory that the workload and the agent share, as the supervisor holds it.
// Its methods may be called from any goroutine.
type Ring struct {
	mu     sync.Mutex
	file   *os.File
	path   string
	remove bool // the file has a name in a directory
	// reserved says that Reserve has succeeded.
	reserved bool
	header   *ringHeader
	size     int64
}

// Create makes a ring. It takes memory only for its header; Reserve takes the rest.
//
// The file is one in memory (memfd), which the workload opens as /proc/<this
// process>/fd/<number>. Where that cannot be made, or could not be opened, it is a
// file in a directory, removed by Close.
func Create(o RingOptions) (*Ring, error) {
	limits, err := backend.Limits{HeadBytes: o.HeadBytes, TailBytes: o.TailBytes, FrameBytes: o.FrameBytes, RingBytes: o.RingBytes}.WithDefaults(minDataBytes)
	if err != nil {
		return nil, fmt.Errorf("create ring: %w", err)
	}
	r := &Ring{size: int64(ringHeaderBytes + limits.RingBytes)}
	if err := r.create(o, limits); err != nil {
		return nil, fmt.Errorf("create ring: %w", errors.Join(err, r.Close()))
	}
	return r, nil
}

func (r *Ring) create(o RingOptions, limits backend.Limits) error {
	if o.memfd == nil {
		o.memfd = unix.MemfdCreate
	}
	var err error
	if r.file, err = memoryFile(o.memfd, r.size); err == nil {
		// Another process opens it by this path, which needs the number to be of a
		// process that it sees.
		r.path = "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/" + strconv.Itoa(int(r.file.Fd()))
	} else if r.file, err = namedFile(o.Dirs, r.size, err); err == nil {
		r.path, r.remove = r.file.Name(), true
	} else {
		return err
	}
	// The workload writes to the header even before an agent comes. A page for which the
	// file system then had no room would be its death by SIGBUS.
	if err := allocate(r.file, 0, ringHeaderBytes); err != nil {
		return fmt.Errorf("reserve header of %s: %w", r.path, err)
	}
	if r.header, err = mapHeader(r.file); err != nil {
		return err
	}
	var nonce [8]byte
	rand.Read(nonce[:]) // never fails: crypto/rand ends the program if it would
	h := r.header
	h.HeaderBytes, h.DataBytes, h.Nonce = ringHeaderBytes, uint64(limits.RingBytes), binary.NativeEndian.Uint64(nonce[:])
	h.HeadBytes, h.TailBytes, h.FrameBytes = uint32(limits.HeadBytes), uint32(limits.TailBytes), uint32(limits.FrameBytes)
	h.Version = ringVersion
	atomic.StoreUint64(&h.Magic, ringMagic)
	return nil
}

// File is the ring's file, for the agent to inherit. It stays the Ring's.
func (r *Ring) File() *os.File { return r.file }

// Path is by what the workload opens the ring: the value of EnvRing.
func (r *Ring) Path() string { return r.path }

// Reserve takes all the memory that the ring may need. Whoever maps a file that the file
// system has no room for is killed by SIGBUS when it writes there, so it is called before
// the workload begins; the second call does nothing. (Where a file system copies on write, as btrfs does, even that is no
// promise; files in memory and tmpfs, which are tried first, keep it.)
func (r *Ring) Reserve() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.header == nil {
		return errors.New("reserve ring: it is closed")
	}
	if r.reserved {
		return nil
	}
	if err := allocate(r.file, ringHeaderBytes, r.size-ringHeaderBytes); err != nil {
		return fmt.Errorf("reserve %d bytes for the ring %s: %w; give it more room, or set a smaller ring", r.size, r.path, err)
	}
	r.reserved = true
	return nil
}

// Deactivate lets the workload's processes write nothing any more.
func (r *Ring) Deactivate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.header != nil {
		// After an error there is nobody left who could use the ring.
		_ = guarded(func() { atomic.StoreUint32(&r.header.Epoch, 0) })
	}
}

// Close gives the ring up; processes that have mapped it keep it, dormant.
func (r *Ring) Close() error {
	r.Deactivate()
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	if r.header != nil {
		errs = append(errs, unmapHeader(r.header))
		r.header = nil
	}
	if r.remove {
		errs = append(errs, os.Remove(r.path))
		r.remove = false
	}
	if r.file != nil {
		errs = append(errs, r.file.Close())
		r.file = nil
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close ring: %w", err)
	}
	return nil
}
