package request

import (
	"slices"
	"strings"
)

// This file joins: which engine requests belong to which exchange.

// call is an Exchange and what was joined to it.
type call struct {
	x     *Exchange
	order uint64
	seqs  []*seq
	// key is the response id, known or expected; "" while there is none. said: the
	// response itself named it; listed: the call is found by it in Tracker.named.
	key          string
	said, listed bool
	// places are those of seqs, once there are two.
	places map[place]struct{}
	// quiet counts the first of seqs that are over.
	quiet int
	// endedAt is when the exchange ended; 0 while it is open.
	endedAt int64
}

// place is a sequence's among those of its call: no two have the same.
type place struct{ child, prompt int }

// maxNamesakes bounds the calls of one id that are looked at for an engine request:
// clients choose ids, and one may repeat one without end.
const maxNamesakes = 64

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
		c.said = true
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
		c.said = true
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
		c.key, c.listed = key, true
		t.named[key] = append(t.named[key], c)
	}
	g := t.groups[key]
	if g == nil {
		return
	}
	if g.unclaimed > 0 && c.listed {
		for _, s := range g.seqs {
			if s.call == nil && t.first(key, s) == c {
				t.claim(c, s)
			}
		}
	}
	if c.said && len(c.seqs) == 0 {
		t.reclaim(c, g)
	}
}

// reclaim takes engine requests back from a call that only expects this id: a client may
// ask for any id, but a response that names it has an engine request behind it.
func (t *Tracker) reclaim(c *call, g *group) {
	for _, s := range g.seqs[:min(len(g.seqs), maxNamesakes)] {
		o := s.call
		if o == nil || o == c || o.said || o.endedAt != 0 || s.AddTime != 0 && s.AddTime < c.x.ReadEnd ||
			c.x.PID != 0 && s.PID != 0 && c.x.PID != s.PID {
			continue
		}
		taken := o.seqs
		o.seqs, o.places, o.quiet = nil, nil, 0
		if !o.listed {
			o.listed = true
			t.named[o.key] = append(t.named[o.key], o)
		}
		for _, s := range taken {
			s.call = nil
			s.group.unclaimed++
			t.claim(c, s)
		}
		return
	}
}

func (t *Tracker) unname(c *call) {
	if !c.listed {
		return
	}
	c.listed = false
	list := t.named[c.key]
	if i := slices.Index(list, c); i >= 0 {
		list = slices.Delete(list, i, i+1)
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
	for _, c := range list[:min(len(list), maxNamesakes)] {
		if c.full() || c.has(s) || c.x.PID != 0 && s.PID != 0 && c.x.PID != s.PID && len(list) > 1 {
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
	n := x.choices()
	return n > 0 && len(c.seqs) >= n*x.Prompts
}

// has reports whether a sequence of c has the place of s: then s is another call's.
func (c *call) has(s *seq) bool {
	if len(c.seqs) == 1 {
		o := c.seqs[0]
		return o.child == s.child && o.prompt == s.prompt
	}
	_, ok := c.places[place{s.child, s.prompt}]
	return ok
}

func (t *Tracker) claim(c *call, s *seq) {
	s.call = c
	s.group.unclaimed--
	c.seqs = append(c.seqs, s)
	switch n := len(c.seqs); {
	case n == 2:
		c.places = map[place]struct{}{{c.seqs[0].child, c.seqs[0].prompt}: {}, {s.child, s.prompt}: {}}
	case n > 2:
		c.places[place{s.child, s.prompt}] = struct{}{}
	}
	if c.x.ReadEnd != 0 && c.full() {
		t.unname(c)
	}
}

// maxByOrder bounds the groups that are looked through for one call; among more, hardly
// ever exactly one fits, and a client can leave as often as it likes.
const maxByOrder = 4096

// joinByOrder finds the engine request behind a call whose response named none: the
// client left early, or the server failed. It takes one only if exactly one engine
// request fits and no other call could be its own: a wrong join is worse than none.
func (t *Tracker) joinByOrder(c *call) {
	prefix := idPrefix(c.x.Endpoint)
	if prefix == "" || c.x.FirstByte == 0 || len(t.groups) > maxByOrder {
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
	if g.unclaimed != len(g.seqs) {
		return false
	}
	for _, s := range g.seqs {
		if settled && !s.settled() {
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

// unnamed are the open calls that have no engine request yet, by the prefix of the ids
// that their endpoint gives: when the first began, and how many they are.
type unnamed map[string]*callers

type callers struct {
	first int64
	left  int
}

func (t *Tracker) unnamed() unnamed {
	u := make(unnamed)
	for _, c := range t.calls {
		// A request that is still being read has not reached the engine.
		if len(c.seqs) > 0 || c.x.ReadEnd == 0 && !c.x.RequestGap && !c.x.BodyMissing {
			continue
		}
		p := idPrefix(c.x.Endpoint)
		if o := u[p]; o == nil {
			u[p] = &callers{c.x.FirstByte, 1}
		} else {
			o.first, o.left = min(o.first, c.x.FirstByte), o.left+1
		}
	}
	return u
}

// mayName reports whether one of the calls could still name the group: it began before
// the group's last message. Each can name one, so that not more are kept than there are.
func (u unnamed) mayName(g *group) bool {
	for p, o := range u {
		if o.left > 0 && o.first <= g.lastSeen && strings.HasPrefix(g.key, p) {
			o.left--
			return true
		}
	}
	return false
}

// over reports whether a call that has ended needs nothing more from the engine.
func (t *Tracker) over(c *call) bool {
	for c.quiet < len(c.seqs) && c.seqs[c.quiet].settled() && c.seqs[c.quiet].quiet(t.now) {
		c.quiet++
	}
	if c.quiet == len(c.seqs) {
		return true
	}
	if t.now-c.endedAt < lingerForEnd {
		return false
	}
	for _, s := range c.seqs {
		if t.now-s.lastSeen < lingerForEnd {
			return false
		}
	}
	return true
}
