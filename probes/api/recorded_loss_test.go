package api

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/probes/capture"
)

// TestRecordedPrefix ends each connection after every byte: nothing may be told that
// is not told of the whole, and the sink's promises hold.
func TestRecordedPrefix(t *testing.T) {
	for _, tt := range recorded {
		lines := record(t, tt.name)
		whole := play(t, events(1, lines)).ended[0]
		size := 1
		if tt.name == "vllm-0.32.0-embeddings" {
			size = 97 // it is long
		}
		evs := pieces(events(1, lines), func() int { return size })
		for n := range evs {
			for _, x := range play(t, evs[:n:n]).ended {
				if why := contradicts(x, whole, false); why != "" {
					t.Fatalf("%s, first %d bytes: %s", tt.name, n, why)
				}
			}
		}
	}
}

// contradicts says where an exchange that was seen in part tells something else than
// the whole one. lossy: then counts that were told more than once may be old.
func contradicts(x, whole *request.Exchange, lossy bool) string {
	if x.Complete && !lossy && x.End != whole.End {
		return fmt.Sprintf("complete at %d; want %d", x.End, whole.End)
	}
	for _, f := range []struct {
		name      string
		got, want int64
	}{
		{"status", int64(x.Status), int64(whole.Status)},
		{"first byte", x.FirstByte, whole.FirstByte},
		{"read end", x.ReadEnd, whole.ReadEnd},
		{"first response byte", x.FirstResponseByte, whole.FirstResponseByte},
		{"first token", x.FirstToken, whole.FirstToken},
	} {
		if f.got != 0 && f.got != f.want {
			return fmt.Sprintf("%s = %d; want %d or none", f.name, f.got, f.want)
		}
	}
	if x.Complete && x.End != whole.End {
		return fmt.Sprintf("end = %d; want %d", x.End, whole.End)
	}
	if x.ResponseID != "" && x.ResponseID != whole.ResponseID {
		return fmt.Sprintf("id = %q; want %q or none", x.ResponseID, whole.ResponseID)
	}
	if x.Model != "" && x.Model != whole.Model || x.ErrorType != "" && x.ErrorType != whole.ErrorType {
		return fmt.Sprintf("model %q, error %q; want %q, %q or none", x.Model, x.ErrorType, whole.Model, whole.ErrorType)
	}
	if x.Prompts != 0 && x.Prompts != whole.Prompts {
		return fmt.Sprintf("prompts = %d; want %d or unknown", x.Prompts, whole.Prompts)
	}
	for i, r := range x.FinishReasons {
		if r != "" && (i >= len(whole.FinishReasons) || r != whole.FinishReasons[i]) {
			return fmt.Sprintf("finish reasons = %q; want %q or none", x.FinishReasons, whole.FinishReasons)
		}
	}
	// SGLang tells the counts so far with each event; a stream that was not complete
	// has an old one, which the client was told indeed.
	if u, w := x.Usage, whole.Usage; u != nil && whole.Route != "/generate" {
		if w == nil {
			return fmt.Sprintf("usage = %+v; want none", *u)
		}
		for _, f := range [][2]int{{u.Prompt, w.Prompt}, {u.Completion, w.Completion}, {u.Cached, w.Cached}, {u.Reasoning, w.Reasoning}} {
			if f[0] != -1 && f[0] != f[1] {
				return fmt.Sprintf("usage = %+v; want %+v or less of it", *u, *w)
			}
		}
	}
	return ""
}

// TestRecordedLoss leaves out every event, and every two and three in a row, of a
// connection that carries three exchanges: what is told must be right or absent.
func TestRecordedLoss(t *testing.T) {
	names := []string{"vllm-0.32.0-chat-stream", "vllm-0.32.0-completion", "vllm-0.32.0-two-prompts", "vllm-0.32.0-wrong-model"}
	var lines []line
	var shift int64
	for _, n := range names {
		part := record(t, n)
		for _, l := range part {
			if l.Op != "close" {
				l.T += shift
				lines = append(lines, l)
			}
		}
		shift += part[len(part)-1].T
	}
	evs := events(1, lines)
	whole := map[int64]*request.Exchange{}
	for _, x := range play(t, evs).ended {
		whole[x.FirstByte] = x
	}
	if len(whole) != len(names) {
		t.Fatalf("exchanges = %d; want %d", len(whole), len(names))
	}
	for burst := 1; burst <= 8; burst++ {
		for i := 0; i+burst <= len(evs); i++ {
			rest := append(append([]capture.Event{}, evs[:i]...), evs[i+burst:]...)
			for _, x := range play(t, rest).ended {
				w := whole[x.FirstByte]
				if w == nil {
					t.Fatalf("events %d to %d lost: an exchange begins at %d, where none does", i, i+burst, x.FirstByte)
				}
				if why := contradicts(x, w, true); why != "" {
					t.Fatalf("events %d to %d lost: %s: %s", i, i+burst, x.Route, why)
				}
				if !x.RequestGap && !x.ResponseGap && !x.BodyMissing && x.Complete && digest(x, lines) != digest(w, lines) {
					t.Fatalf("events %d to %d lost: no gap marked in\n%s\nwhich was\n%s", i, i+burst, digest(x, lines), digest(w, lines))
				}
			}
		}
	}
}

// TestRecordedCut cuts the middle out of every segment, at many places.
func TestRecordedCut(t *testing.T) {
	for _, tt := range recorded {
		lines := record(t, tt.name)
		evs := events(1, lines)
		whole := play(t, evs).ended[0]
		for i := range evs {
			full := evs[i].Data
			step := max(1, len(full)/25)
			for head := 0; head < len(full); head += step {
				for keep := 0; head+keep < len(full); keep += step {
					cut := append([]capture.Event{}, evs...)
					cut[i].Data = append(append([]byte{}, full[:head]...), full[len(full)-keep:]...)
					cut[i].Tail = keep
					for _, x := range play(t, cut).ended {
						if why := contradicts(x, whole, true); why != "" {
							t.Fatalf("%s, segment %d cut to %d+%d: %s", tt.name, i+1, head, keep, why)
						}
						if digest(x, lines) != tt.want && !x.BodyMissing && !x.ResponseCut && !x.ResponseGap {
							t.Fatalf("%s, segment %d cut to %d+%d: nothing is marked in\n%s", tt.name, i+1, head, keep, digest(x, lines))
						}
					}
				}
			}
		}
	}
}

// TestRecordedInterleaved plays all connections at once, in random order.
func TestRecordedInterleaved(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		var queues [][]capture.Event
		for i, r := range recorded {
			queues = append(queues, pieces(events(uint64(i+1), record(t, r.name)), func() int { return 1 + rnd.IntN(200) }))
		}
		var mixed []capture.Event
		for len(queues) > 0 {
			i := rnd.IntN(len(queues))
			mixed = append(mixed, queues[i][0])
			if queues[i] = queues[i][1:]; len(queues[i]) == 0 {
				queues = append(queues[:i], queues[i+1:]...)
			}
		}
		s := play(t, mixed)
		if len(s.ended) != len(recorded) {
			t.Fatalf("exchanges = %d; want %d", len(s.ended), len(recorded))
		}
		for _, x := range s.ended {
			r := recorded[x.Conn-1]
			if got := digest(x, record(t, r.name)); got != r.want {
				t.Fatalf("%s among others =\n%s\nwant\n%s", r.name, got, r.want)
			}
		}
	}
}
