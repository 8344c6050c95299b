package backend

import (
	"testing"
	"time"
)

// TestOffsetClock wants the offset once, and again only when it has moved.
func TestOffsetClock(t *testing.T) {
	var c OffsetClock
	now := Monotonic()
	offset, ok := c.Next(now)
	if !ok {
		t.Fatal("the first offset is not told")
	}
	if wall := time.Now().UnixNano() - Monotonic(); wall-offset > int64(time.Second) || offset-wall > int64(time.Second) {
		t.Errorf("offset = %d; want about %d", offset, wall)
	}
	if _, ok := c.Next(now + int64(offsetInterval) - 1); ok {
		t.Error("told again within the interval")
	}
	// As if the wall clock had been set back by a second.
	c.told += int64(time.Second)
	for i := range 100 {
		if _, ok := c.Next(now + int64(i+1)*int64(offsetInterval)); ok {
			return
		}
	}
	t.Error("a moved clock is not told")
}
