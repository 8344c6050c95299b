package request

import "strings"

// This file joins: which engine requests belong to which exchange.

// call is an Exchange and what was joined to it.
type call struct {
	x     *Exchange
	order uint64
	seqs  []*seq
	// key is the response id, known or expected; "" while there is none.
	key string
	// endedAt is when the exchange ended; 0 while it is open.
	endedAt int64
}

// ExchangeBegan implements HTTPSink.
func (t *Tracker) ExchangeBegan(x *Exchange) {
	t.advance(x.FirstByte)
	if len(t.calls) >= t.opts.MaxOpen {
		t.stats.RefusedExchanges++
		return
	}
	t.calls[x] = &call{x: x, order: t.nextOrder()}
}

// ExchangeRead implements HTTPSink.
func (t *Tracker) ExchangeRead(x *Exchange) {
	t.advance(x.ReadEnd)
	if c := t.calls[x]; c != nil {
		t.name(c, expectedKey(x))
	}
}

// ExchangeNamed implements HTTPSink.
func (t *Tracker) ExchangeNamed(x *Exchange) {
	if c := t.calls[x]; c != nil {
		t.name(c, x.ResponseID)
	}
}

// ExchangeEnded implements HTTPSink.
func (t *Tracker) ExchangeEnded(x *Exchange) {
	t.advance(x.End)
	c := t.calls[x]
	if c == nil {
		return
	}
	delete(t.calls, x)
	c.endedAt = max(x.End, t.now)
	if x.ResponseID != "" {
		t.name(c, x.ResponseID)
	}
	if len(c.seqs) == 0 && (x.Disconnected || x.ServerClosed || x.Status >= 500) {
		t.joinByOrder(c)
	}
	if t.over(c) {
		t.finish(c)
		return
	}
	t.waiting[c] = struct{}{}
}

// name says which response id a call has, and takes the engine requests that lead to it.
func (t *Tracker) name(c *call, key string) {
	if key == "" {
		return
	}
	if c.key != key {
		t.unname(c)
		c.key = key
		t.named[key] = append(t.named[key], c)
	}
	g := t.groups[key]
	if g == nil {
		return
	}
	for _, s := range g.seqs {
		if s.call == nil && t.first(key, s) == c {
			t.claim(c, s)
		}
	}
}

func (t *Tracker) unname(c *call) {
	list := t.named[c.key]
	for i, o := range list {
		if o == c {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(t.named, c.key)
		return
	}
	t.named[c.key] = list
}

// claimByName gives a new engine request to the open call that its id leads to.
func (t *Tracker) claimByName(s *seq) {
	if c := t.first(s.group.key, s); c != nil {
		t.claim(c, s)
	}
}

// first is the call that takes s, of those that go by key: mostly there is one. Where
// clients repeat an X-Request-Id, requests are taken in the order in which they came.
func (t *Tracker) first(key string, s *seq) *call {
	list := t.named[key]
	for _, c := range list {
		if c.full() || c.x.PID != 0 && s.PID != 0 && c.x.PID != s.PID && len(list) > 1 {
			continue
		}
		return c
	}
	return nil
}

// full reports whether a call has as many engine requests as it asked for.
func (c *call) full() bool {
	x := c.x
	if x.Prompts == 0 || x.BodyMissing || x.Endpoint != EndpointChat && x.Endpoint != EndpointCompletions {
		return false
	}
	n := 1
	if x.Params.N != nil {
		n = *x.Params.N
	}
	return len(c.seqs) >= n*x.Prompts
}

func (t *Tracker) claim(c *call, s *seq) {
	s.call = c
	c.seqs = append(c.seqs, s)
}

// joinByOrder finds the engine request behind a call whose response named none: the
// client left early, or the server failed. It takes one only if exactly one engine
// request fits and no other call could be its own: a wrong join is worse than none.
func (t *Tracker) joinByOrder(c *call) {
	prefix := idPrefix(c.x.Endpoint)
	if prefix == "" || c.x.FirstByte == 0 {
		return
	}
	var found *group
	for key, g := range t.groups {
		if len(key) < len(prefix) || key[:len(prefix)] != prefix || !g.free(false) || !g.fits(c) {
			continue
		}
		if found != nil {
			return
		}
		found = g
	}
	if found == nil {
		return
	}
	for _, o := range t.calls {
		if o != c && len(o.seqs) == 0 && o.key == "" && o.x.Endpoint == c.x.Endpoint && found.fits(o) {
			return
		}
	}
	for _, s := range found.seqs {
		t.claim(c, s)
	}
	delete(t.orphans, found)
}

// free reports whether no call has taken any of the group; settled, that all have ended too.
func (g *group) free(settled bool) bool {
	for _, s := range g.seqs {
		if s.call != nil || settled && !s.settled() {
			return false
		}
	}
	return true
}

// fits reports whether a group's requests can be a call's: same process, handed to the
// engine while the call was open, same parameters as far as both sides show them.
func (g *group) fits(c *call) bool {
	x := c.x
	for _, s := range g.seqs {
		if !s.added || s.AddTime < max(x.FirstByte, x.ReadEnd) || x.End != 0 && s.AddTime > x.End {
			return false
		}
		if x.PID != 0 && s.PID != 0 && x.PID != s.PID {
			return false
		}
		if differ(x.Params.MaxTokens, s.Params.MaxTokens) || differ(x.Params.Temperature, s.Params.Temperature) ||
			differ(x.Params.Seed, s.Params.Seed) || differ(x.Stream, s.Params.Stream) {
			return false
		}
	}
	return true
}

func differ[T comparable](a, b *T) bool { return a != nil && b != nil && *a != *b }

// unnamed is when the first of the open calls that have no engine request yet began,
// by the prefix of the ids that their endpoint gives.
type unnamed map[string]int64

func (t *Tracker) unnamed() unnamed {
	first := make(unnamed)
	for _, c := range t.calls {
		if len(c.seqs) > 0 {
			continue
		}
		p := idPrefix(c.x.Endpoint)
		if at, ok := first[p]; !ok || c.x.FirstByte < at {
			first[p] = c.x.FirstByte
		}
	}
	return first
}

// mayName reports whether one of the calls could still name the group: it began before
// the group's last message.
func (u unnamed) mayName(g *group) bool {
	for p, at := range u {
		if at <= g.lastSeen && strings.HasPrefix(g.key, p) {
			return true
		}
	}
	return false
}

// over reports whether a call that has ended needs nothing more from the engine.
func (t *Tracker) over(c *call) bool {
	last := c.endedAt
	settled := true
	for _, s := range c.seqs {
		last = max(last, s.lastSeen)
		if !s.settled() || !s.quiet(t.now) {
			settled = false
		}
	}
	return settled || t.now-last >= lingerForEnd
}
