//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// exchangeLimit bounds one request: the first of its kind compiles kernels for seconds.
const exchangeLimit = 60 * time.Second

// A call is one request of the workload and what must come of it.
type call struct {
	name, path string
	method     string // "" is POST
	body       map[string]any
	raw        string // sent instead of body

	traceparent bool        // send a traceparent of its own
	requestID   string      // X-Request-Id
	split       bool        // send head and body apart
	stopAfter   int         // leave after so many SSE events
	onEvent     func(n int) // called after the nth SSE event

	status     int  // 0 is 200
	sequences  int  // requests inside the engine
	engineDies bool // while they run
}

// An answer is what the client got.
type answer struct {
	call
	traceID, spanID string // of the traceparent that was sent

	status  int
	id      string
	errType string
	texts   map[int]string // by choice
	finish  map[int]string
	usage   *usage
	metrics *metrics
	events  int // SSE events with data
	err     error
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
}

// metrics are vLLM's per-request metrics, in a response and in a request line.
type metrics struct {
	TimeToFirstToken *float64 `json:"time_to_first_token_ms"`
	GenerationTime   *float64 `json:"generation_time_ms"`
	QueueTime        *float64 `json:"queue_time_ms"`
	MeanITL          *float64 `json:"mean_itl_ms"`
	TokensPerSecond  *float64 `json:"tokens_per_second"`
}

// body is what completions, chat completions, their chunks and errors have in common.
type body struct {
	ID      string   `json:"id"`
	Usage   *usage   `json:"usage"`
	Metrics *metrics `json:"metrics"`
	Error   *struct {
		Type string `json:"type"`
	} `json:"error"`
	Choices []struct {
		Index   int     `json:"index"`
		Text    string  `json:"text"`
		Finish  string  `json:"finish_reason"`
		Message content `json:"message"`
		Delta   content `json:"delta"`
	} `json:"choices"`
}

type content struct {
	Content string `json:"content"`
}

// client sends calls over one kept-alive connection, or over a new one each.
type client struct {
	address string
	keep    bool
	conn    net.Conn
	in      *bufio.Reader
	used    time.Time // when conn had its last answer
}

// idleLimit is how long a connection may have been idle to be used again: the server
// closes it after 5 s (uvicorn's default).
const idleLimit = 2 * time.Second

// fresh returns a client for one call to the same server on a connection of its own.
func (c *client) fresh() *client { return &client{address: c.address} }

// do sends one call and reads its answer; a failure is in answer.err.
func (c *client) do(k call) *answer {
	a := &answer{call: k, texts: map[int]string{}, finish: map[int]string{}}
	a.err = c.exchange(k, a)
	c.used = time.Now()
	if a.err != nil || !c.keep || k.stopAfter > 0 {
		c.close()
	}
	return a
}

func (c *client) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

func (c *client) exchange(k call, a *answer) error {
	if time.Since(c.used) > idleLimit {
		c.close()
	}
	if c.conn == nil {
		conn, err := net.Dial("tcp", c.address)
		if err != nil {
			return err
		}
		c.conn, c.in = conn, bufio.NewReader(conn)
	}
	c.conn.SetDeadline(time.Now().Add(exchangeLimit))
	if err := c.send(k, a); err != nil {
		return err
	}
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return fmt.Errorf("read the response: %w", err)
	}
	// Its body is not closed: that would read it to its end, which a client that leaves
	// does not do. The connection is ours.
	a.status = response.StatusCode
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return a.readStream(response.Body, k.stopAfter)
	}
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	if len(raw) > 0 && raw[0] == '{' {
		return a.add(raw)
	}
	return nil
}

func (c *client) send(k call, a *answer) error {
	payload := []byte(k.raw)
	if k.body != nil {
		var err error
		if payload, err = json.Marshal(k.body); err != nil {
			return err
		}
	}
	method := k.method
	if method == "" {
		method = http.MethodPost
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: tokenscope-e2e\r\n", method, k.path, c.address)
	if len(payload) > 0 {
		fmt.Fprintf(&head, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(payload))
	}
	if k.traceparent {
		a.traceID, a.spanID = randomHex(16), randomHex(8)
		fmt.Fprintf(&head, "traceparent: 00-%s-%s-01\r\n", a.traceID, a.spanID)
	}
	if k.requestID != "" {
		fmt.Fprintf(&head, "X-Request-Id: %s\r\n", k.requestID)
	}
	if !c.keep {
		head.WriteString("Connection: close\r\n")
	}
	head.WriteString("\r\n")
	if !k.split {
		_, err := c.conn.Write(append(head.Bytes(), payload...))
		return err
	}
	if _, err := c.conn.Write(head.Bytes()); err != nil {
		return err
	}
	time.Sleep(5 * time.Millisecond) // so that the server reads them apart
	_, err := c.conn.Write(payload)
	return err
}

// readStream reads server-sent events, and stops after so many if it is told to.
func (a *answer) readStream(r io.Reader, stopAfter int) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		if err := a.add([]byte(data)); err != nil {
			return err
		}
		a.events++
		if a.onEvent != nil {
			a.onEvent(a.events)
		}
		if a.events == stopAfter {
			return nil
		}
	}
	return lines.Err()
}

func (a *answer) add(raw []byte) error {
	var b body
	if err := json.Unmarshal(raw, &b); err != nil {
		return fmt.Errorf("read %.200q: %w", raw, err)
	}
	if b.ID != "" {
		a.id = b.ID
	}
	if b.Usage != nil {
		a.usage = b.Usage
	}
	if b.Metrics != nil {
		a.metrics = b.Metrics
	}
	if b.Error != nil {
		a.errType = b.Error.Type
	}
	for _, c := range b.Choices {
		a.texts[c.Index] += c.Text + c.Message.Content + c.Delta.Content
		if c.Finish != "" {
			a.finish[c.Index] = c.Finish
		}
	}
	return nil
}

// get reads a page of the server.
func get(t *testing.T, address, path string) string {
	t.Helper()
	c := http.Client{Timeout: exchangeLimit}
	response, err := c.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s = %s, %v", path, response.Status, err)
	}
	return string(b)
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b)
	b[0] |= 1 // all zeros is no id
	return hex.EncodeToString(b)
}
