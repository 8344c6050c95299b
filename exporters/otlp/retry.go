package otlp

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// When and how often an export is tried again. The SDK's own retries are off: over HTTP
// they leave out the most common failure, a collector that restarts and refuses
// connections; over gRPC they count against the timeout of one attempt; and both begin
// with 5 s of silence, in which nobody is told that the collector is away.

const (
	// firstPause is long enough for a process that comes up to get somewhere.
	firstPause = 250 * time.Millisecond
	// maxPause bounds how long after its return a collector is not noticed. One attempt in
	// 2 s is less than what a collector that works gets.
	maxPause    = 2 * time.Second
	pauseGrowth = 2.0
)

// pauses are the pauses between the attempts at one export. The zero value begins.
type pauses struct{ last time.Duration }

// next is between half and all of a time that grows, so that many agents do not come
// back to a collector in step.
func (p *pauses) next() time.Duration {
	if p.last == 0 {
		p.last = firstPause
	} else {
		p.last = min(time.Duration(float64(p.last)*pauseGrowth), maxPause)
	}
	return p.last/2 + rand.N(p.last/2)
}

// inShort says in our own words what a failed attempt came to.
func (a *answer) inShort(err error) string {
	if a.status != 0 {
		return strings.TrimSpace("HTTP status " + strconv.Itoa(a.status) + " " + http.StatusText(a.status))
	}
	if s, ok := status.FromError(err); ok {
		return "gRPC status " + s.Code().String()
	}
	return "no answer"
}

// again reports whether a failed attempt is worth another, and how long the collector
// asked to be left alone. a is its answer over HTTP.
//
// Source: OpenTelemetry specification, protocol/otlp.md, "Failures".
func again(err error, a *answer) (ok bool, pause time.Duration) {
	switch a.status {
	case 0:
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true, a.retryAfter
	default:
		return false, 0
	}
	// Over HTTP, an error without an answer: the connection failed.
	if _, ok := errors.AsType[*url.Error](err); ok {
		return true, 0
	}
	s, ok := status.FromError(err)
	if !ok {
		return false, 0
	}
	asked := false
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			asked, pause = true, min(info.GetRetryDelay().AsDuration(), maxRetryAfter)
		}
	}
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
		return true, pause
	case codes.ResourceExhausted:
		// Only where the collector says that it will have room again.
		return asked, pause
	}
	return false, 0
}
