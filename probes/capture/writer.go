package capture

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Writer keeps events in a recording. Write never waits for the disk: lines go to a
// buffer of bounded size that one goroutine compresses and writes, and ends a block at
// least every second. Events that find the buffer full are counted and left out; a
// disk that fails ends the recording, and nothing else.
type Writer struct {
	file  *os.File
	clean func(*Event) *Event
	line  []byte

	mu     sync.Mutex
	cond   *sync.Cond
	buf    []byte
	closed bool
	err    error
	lost   int
	done   chan struct{}
}

const (
	// writerBuffer bounds what waits for the disk.
	writerBuffer = 16 << 20
	// writerFlush is how old a line may get before it can be read from the file.
	writerFlush = time.Second
)

// NewWriter creates a recording at path, which only its owner may read. clean, if not
// nil, gives each event as it is to be kept: without its content.
func NewWriter(path string, h Header, clean func(*Event) *Event) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create recording: %w", err)
	}
	h.Version = RecordingVersion
	head, err := json.Marshal(h)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("create recording: %w", err)
	}
	w := &Writer{file: f, clean: clean, buf: append(head, '\n'), done: make(chan struct{})}
	w.cond = sync.NewCond(&w.mu)
	go w.run()
	return w, nil
}

// Write takes an event. It is not safe for concurrent use.
func (w *Writer) Write(e *Event) {
	if w.clean != nil {
		e = w.clean(e)
	}
	w.line = appendLine(w.line[:0], e)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
	case len(w.buf)+len(w.line) > writerBuffer:
		w.lost++
	default:
		if w.lost > 0 {
			w.buf = appendLine(w.buf, &Event{Kind: KindLost, Time: e.Time, Len: w.lost, Cause: LostQueue})
			w.lost = 0
		}
		w.buf = append(w.buf, w.line...)
		if len(w.buf) >= writerBuffer/4 {
			w.cond.Signal()
		}
	}
}

// Err returns why the recording ended early, or nil.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close writes what is left and closes the file.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closed = true
	w.cond.Signal()
	w.mu.Unlock()
	<-w.done
	return w.Err()
}

func (w *Writer) run() {
	defer close(w.done)
	z := gzip.NewWriter(w.file)
	tick := time.NewTicker(writerFlush)
	defer tick.Stop()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-tick.C:
				w.mu.Lock()
				w.cond.Signal()
				w.mu.Unlock()
			case <-stop:
				return
			}
		}
	}()
	var spare []byte
	for first := true; ; first = false {
		w.mu.Lock()
		if !first && !w.closed && len(w.buf) < writerBuffer/4 {
			w.cond.Wait()
		}
		out, closed := w.buf, w.closed
		w.buf = spare[:0]
		w.mu.Unlock()
		err := error(nil)
		if len(out) > 0 {
			if _, err = z.Write(out); err == nil {
				err = z.Flush()
			}
		}
		if closed && err == nil {
			err = z.Close()
		}
		if closed || err != nil {
			if cerr := w.file.Close(); err == nil {
				err = cerr
			}
			w.mu.Lock()
			if err != nil {
				w.err = fmt.Errorf("write recording: %w", err)
				w.buf = nil
			}
			w.mu.Unlock()
			return
		}
		spare = out
	}
}
