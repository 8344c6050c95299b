package preload

// Mapping the ring's file.

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// minDataBytes is a whole page everywhere (arm64 has pages of 64 KiB), which mapping the
// data a second time needs.
const minDataBytes = 64 << 10

// mapHeader maps the first part of a ring's file.
func mapHeader(f *os.File) (*ringHeader, error) {
	p, err := unix.MmapPtr(int(f.Fd()), 0, nil, ringHeaderBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map ring header: %w", err)
	}
	return (*ringHeader)(p), nil
}

func unmapHeader(h *ringHeader) error {
	return unix.MunmapPtr(unsafe.Pointer(h), ringHeaderBytes)
}

// mapData maps the data twice in a row, so that a record never wraps. prot is PROT_READ
// for a reader.
func mapData(f *os.File, size, prot int) ([]byte, error) {
	// The room first, then both halves into it: between two free mappings another
	// thread's could come to lie.
	room, err := unix.MmapPtr(-1, 0, nil, uintptr(2*size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map ring data: %w", err)
	}
	for _, at := range []int{0, size} {
		_, err := unix.MmapPtr(int(f.Fd()), ringHeaderBytes, unsafe.Add(room, at), uintptr(size), prot, unix.MAP_SHARED|unix.MAP_FIXED)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("map ring data: %w", err), unix.MunmapPtr(room, uintptr(2*size)))
		}
	}
	return unsafe.Slice((*byte)(room), 2*size), nil
}

func unmapData(data []byte) error {
	if data == nil {
		return nil
	}
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(data)), uintptr(len(data)))
}

// checkHeader compares a ring's first numbers, which the supervisor wrote, with what
// this program expects and with the size of the file. It returns the size of the data.
func checkHeader(h *ringHeader, fileBytes int64) (int, error) {
	if magic := atomic.LoadUint64(&h.Magic); magic != ringMagic {
		return 0, fmt.Errorf("it begins with %#x, which is no ring", magic)
	}
	if v := atomic.LoadUint32(&h.Version); v != ringVersion {
		return 0, fmt.Errorf("%w: it has version %d, this agent reads %d; supervisor and agent must be the same program: start the workload again with it",
			ErrVersion, v, ringVersion)
	}
	header, data := atomic.LoadUint32(&h.HeaderBytes), atomic.LoadUint64(&h.DataBytes)
	if header != ringHeaderBytes {
		return 0, fmt.Errorf("its header has %d bytes, not %d", header, ringHeaderBytes)
	}
	if data < minDataBytes || data > maxDataBytes || data&(data-1) != 0 {
		return 0, fmt.Errorf("its size of %d bytes makes no sense", data)
	}
	if want := int64(ringHeaderBytes + data); fileBytes < want {
		return 0, fmt.Errorf("its file has %d bytes, not %d", fileBytes, want)
	}
	return int(data), nil
}

// errShortened is why memory that is mapped is not there.
var errShortened = errors.New("the ring's file has been shortened")

// guarded runs f, which looks at the ring. A file whose size is not sealed may be
// shortened by anybody who may write to it, and looking at what is gone is a fault; that
// is made an error, where it would end the process: the supervisor's end would be that of
// the workload.
func guarded(f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		v := recover()
		if _, fault := v.(interface{ Addr() uintptr }); fault { // runtime/debug.SetPanicOnFault
			err = errShortened
		} else if v != nil {
			panic(v)
		}
	}()
	f()
	return nil
}

// ErrVersion is the error for a ring of another version of the protocol.
var ErrVersion = errors.New("ring of another version")
