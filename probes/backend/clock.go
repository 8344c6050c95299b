package backend

// The two clocks of Linux, and when the distance between them is worth telling.

import (
	"time"

	"golang.org/x/sys/unix"
)

// The wall clock's offset to CLOCK_MONOTONIC is told again when it has moved by
// more than offsetStep. It is looked at every offsetInterval.
const (
	offsetStep     = 100 * time.Microsecond
	offsetInterval = time.Second
	// A sample that took longer than this was interrupted and says nothing.
	offsetMaxSpread = 20 * time.Microsecond
	offsetSamples   = 8
)

func readClock(id int32) int64 {
	var ts unix.Timespec
	// It cannot fail for the two clocks that are asked for.
	_ = unix.ClockGettime(id, &ts)
	return ts.Nano()
}

// Monotonic is CLOCK_MONOTONIC in nanoseconds, as bpf_ktime_get_ns and clock_gettime have it.
func Monotonic() int64 { return readClock(unix.CLOCK_MONOTONIC) }

// wallOffset is CLOCK_REALTIME − CLOCK_MONOTONIC, from the tightest of several
// readings of the one between two of the other, and how far those two were apart.
func wallOffset() (offset, spread int64) {
	for range offsetSamples {
		before := Monotonic()
		wall := readClock(unix.CLOCK_REALTIME)
		after := Monotonic()
		if s := after - before; spread == 0 || s < spread {
			offset, spread = wall-before-s/2, s
		}
	}
	return offset, spread
}

// OffsetClock decides when the offset is worth telling.
type OffsetClock struct {
	told   int64
	known  bool
	looked int64 // CLOCK_MONOTONIC
}

// Next returns the offset if it is to be told now.
func (c *OffsetClock) Next(now int64) (int64, bool) {
	if c.known && now-c.looked < int64(offsetInterval) {
		return 0, false
	}
	offset, spread := wallOffset()
	c.looked = now
	if c.known {
		if spread > int64(offsetMaxSpread) {
			return 0, false
		}
		if moved := offset - c.told; moved <= int64(offsetStep) && moved >= -int64(offsetStep) {
			return 0, false
		}
	}
	c.told, c.known = offset, true
	return offset, true
}
