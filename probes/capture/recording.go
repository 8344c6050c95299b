package capture

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/gzip"
)

// A recording is a gzip stream of JSON lines: a Header, then events (line.go). The
// writer ends a compressed block at every flush, so that a file torn by a crash is
// readable up to the last flush.

// RecordingVersion is the version that is written. Readers take all versions up to it.
//
//	1  the first
const RecordingVersion = 1

// Header is the first line of a recording. It holds what a replay cannot take from events.
type Header struct {
	Version int `json:"tokenscope_recording"`
	// Tool is the version of the agent that wrote it.
	Tool string `json:"tool,omitempty"`
	// Seed is the seed of ids in a replay, 64 hex digits.
	Seed string `json:"seed"`
	// Content says that message content was kept; otherwise it is overwritten.
	Content bool `json:"content"`
	// Resource is the resource of the spans: attribute keys and values.
	Resource map[string]string `json:"resource,omitempty"`
	// Engine and EngineVersion, where they were known from outside the events.
	Engine        string `json:"engine,omitempty"`
	EngineVersion string `json:"engine_version,omitempty"`
}

// SeedBytes decodes the seed.
func (h *Header) SeedBytes() (seed [32]byte, err error) {
	b, err := hex.DecodeString(h.Seed)
	if err != nil || len(b) != len(seed) {
		return seed, fmt.Errorf("read recording: seed %q is not 64 hex digits", h.Seed)
	}
	copy(seed[:], b)
	return seed, nil
}

const (
	// maxLine bounds a line: an event holds at most some MiB, and base64 adds a third.
	maxLine = 64 << 20
	// maxMeta bounds a fixture's description; the longest has some KiB.
	maxMeta = 1 << 20
	// eventsFile and metaFile are the parts of a recorded fixture's folder.
	eventsFile = "events.jsonl.gz"
	metaFile   = "meta.json"
)

// Recording reads a recording or a fixture's folder. It is a Source.
type Recording struct {
	Header Header
	// Torn is set by Run when the file ended in the middle of an event.
	Torn bool

	file  *os.File
	in    *bufio.Reader
	first []byte // a line that was read too early
	clock *Event // for fixtures: the wall clock's offset, to be delivered first
}

// OpenRecording opens a file that Writer wrote, or a folder with events.jsonl.gz and
// meta.json.
func OpenRecording(path string) (*Recording, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	file := path
	if info.IsDir() {
		file = filepath.Join(path, eventsFile)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	r := &Recording{file: f}
	if err := r.open(path, info.IsDir()); err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

func (r *Recording) open(path string, dir bool) error {
	z, err := gzip.NewReader(bufio.NewReaderSize(r.file, 1<<16))
	if err != nil {
		return fmt.Errorf("open recording %s: not a gzip file: %w", path, err)
	}
	r.in = bufio.NewReaderSize(z, 1<<16)
	if dir {
		return r.openFixture(path)
	}
	first, err := r.line()
	if err != nil {
		return fmt.Errorf("open recording %s: no header: %w", path, err)
	}
	if err := json.Unmarshal(first, &r.Header); err != nil {
		return fmt.Errorf("open recording %s: header: %w", path, err)
	}
	switch v := r.Header.Version; {
	case v == 0:
		// Bare event lines without a header: a fixture's events file named by itself.
		r.first = bytes.Clone(first)
		return r.openFixture(filepath.Dir(path))
	case v < 0 || v > RecordingVersion:
		return fmt.Errorf("open recording %s: version %d, this program reads up to %d; take a newer one", path, v, RecordingVersion)
	}
	_, err = r.Header.SeedBytes()
	return err
}

// fixtureMeta is what is used of a fixture's meta.json.
type fixtureMeta struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	OffsetNs  int64  `json:"realtime_minus_monotonic_ns"`
	Engine    string `json:"engine"`
	Processes []struct {
		PID uint32 `json:"pid"`
	} `json:"processes"`
}

func (r *Recording) openFixture(dir string) error {
	b, err := readMeta(filepath.Join(dir, metaFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("open recording: %w", err)
	}
	var m fixtureMeta
	if len(b) > 0 {
		if err := json.Unmarshal(b, &m); err != nil {
			return fmt.Errorf("open recording: parse %s: %w", filepath.Join(dir, metaFile), err)
		}
	}
	seed := sha256.Sum256(b)
	r.Header = Header{Version: RecordingVersion, Seed: hex.EncodeToString(seed[:]), Content: true, EngineVersion: m.Version}
	if m.OffsetNs != 0 {
		r.clock = &Event{Kind: KindClock, Offset: m.OffsetNs}
	}
	return nil
}

// readMeta reads a small regular file. A folder that somebody sent may have anything by
// that name: a pipe would never end.
func readMeta(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxMeta {
		return nil, fmt.Errorf("%s: not a regular file of at most %d bytes", name, maxMeta)
	}
	return os.ReadFile(name)
}

// line reads one line; its bytes are valid until the next call.
func (r *Recording) line() ([]byte, error) {
	b, err := r.in.ReadSlice('\n')
	if err == nil {
		return b, nil
	}
	if !errors.Is(err, bufio.ErrBufferFull) {
		return b, err
	}
	long := bytes.Clone(b)
	for errors.Is(err, bufio.ErrBufferFull) {
		b, err = r.in.ReadSlice('\n')
		if long = append(long, b...); len(long) > maxLine {
			return nil, fmt.Errorf("read recording: a line is longer than %d bytes", maxLine)
		}
	}
	return long, err
}

// Run delivers the events. A file that ends in the middle of one gives what came
// before it, then a KindLost of one event, and Torn is set; that is no error.
func (r *Recording) Run(ctx context.Context, sink func(*Event)) error {
	var lr lineReader
	var last int64
	for n := 1; ctx.Err() == nil; n++ {
		b := r.first
		var err error
		if r.first = nil; b == nil {
			b, err = r.line()
		}
		if err != nil {
			if errors.Is(err, io.EOF) && len(b) == 0 {
				return nil
			}
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) {
				r.Torn = true
				sink(&Event{Kind: KindLost, Time: last, Len: 1, Cause: LostTorn})
				return nil
			}
			return fmt.Errorf("read recording: event %d: %w", n, err)
		}
		e, err := lr.read(b)
		if err != nil {
			return fmt.Errorf("read recording: event %d: %w", n, err)
		}
		if r.clock != nil {
			r.clock.Time = e.Time
			sink(r.clock)
			r.clock = nil
		}
		last = e.Time
		sink(e)
	}
	return ctx.Err()
}

// Close closes the file.
func (r *Recording) Close() error { return r.file.Close() }

// Find lists the recordings under path: itself, if it is one, else every fixture folder
// and *.tsrec file in it, by name.
func Find(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("find recordings: %w", err)
	}
	if !info.IsDir() || exists(filepath.Join(path, eventsFile)) {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("find recordings: %w", err)
	}
	var found []string
	for _, e := range entries {
		p := filepath.Join(path, e.Name())
		if e.IsDir() && exists(filepath.Join(p, eventsFile)) || !e.IsDir() && filepath.Ext(p) == RecordingExt {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("find recordings: none in %s (looked for *%s files and folders with %s)", path, RecordingExt, eventsFile)
	}
	return found, nil
}

// RecordingExt is the usual ending of a recording's file name.
const RecordingExt = ".tsrec"

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
