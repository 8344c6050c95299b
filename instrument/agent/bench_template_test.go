package agent

// The parts from which a large run is made (bench_load_test.go): the messages of one
// real streaming chat, taken apart where a value differs from request to request.

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// The recording and, in it, the chat: one with stream, usage and a caller's span.
const (
	templateRecording = "vllm-0.32.0"
	templateID        = "chatcmpl-fixture-1"
)

// Fields of an output and of an ADD that the run sets (vLLM 0.32.0,
// vllm/v1/engine/__init__.py: EngineCoreOutput, EngineCoreRequest).
const (
	outputID     = 0
	outputFinish = 5
	outputEvents = 7
	addID        = 0
	addSampling  = 3
	addArrival   = 5
	addExternal  = 16
)

// template is one chat's messages.
type template struct {
	clock          int64 // wall − monotonic
	core, frontEnd uint32
	ready          capture.Event
	coreOut, feIn  uint64 // sockets of outputs
	feOut, coreIn  uint64 // sockets of requests
	identity       []byte
	add            [][]byte   // fields
	first, last    [][]byte   // fields of the first and the last output
	middle         [][][]byte // fields of those between
	stats          []byte
	behind         []byte // what follows a step's timestamp
	request        []byte
	response       []byte   // head
	role           []byte   // SSE documents, without their chunks' sizes
	content        [][]byte // one a middle token
	contentLast    []byte
	usage          []byte
	done           []byte // whole chunks: [DONE], and the one of no bytes
	lastChunk      []byte
	promptTokens   int
}

// loadTemplate takes the chat out of the recording.
func loadTemplate(tb testing.TB) *template {
	tb.Helper()
	_, events := load(tb, templateRecording)
	p := &template{}
	var conn uint64
	var outputs [][]byte
	for i := range events {
		e := &events[i]
		isAdd := !e.More && i > 0 && string(events[i-1].Data) == "\x00" && bytes.Contains(e.Data, []byte(templateID))
		switch {
		case e.Kind == capture.KindClock:
			p.clock = e.Offset
		case e.Kind == capture.KindRecv && e.Socket == capture.SocketRouter && bytes.Contains(e.Data, []byte("vllm_version")):
			p.ready = *e
		case e.Kind == capture.KindSend && isAdd:
			p.frontEnd, p.feOut, p.identity = e.PID, e.Conn, events[i-2].Data
			p.add = elements(tb, e.Data)
		case e.Kind == capture.KindRecv && isAdd:
			p.core, p.coreIn = e.PID, e.Conn
		case e.Kind == capture.KindSend && e.Socket == capture.SocketPush && bytes.Contains(e.Data, []byte(templateID)):
			p.coreOut = e.Conn
			outputs = append(outputs, e.Data)
		case e.Kind == capture.KindRecv && e.Socket == capture.SocketPull && bytes.Contains(e.Data, []byte(templateID)):
			p.feIn = e.Conn
		case e.Kind == capture.KindRead && bytes.Contains(e.Data, []byte("X-Request-Id: fixture-1\r\n")):
			conn, p.request = e.Conn, e.Data
		case e.Kind == capture.KindWrite && conn != 0 && e.Conn == conn && p.lastChunk == nil:
			p.write(tb, e.Data)
		}
	}
	if len(outputs) < 3 || p.add == nil || p.lastChunk == nil || len(p.content) == 0 || p.done == nil || p.ready.Kind == 0 {
		tb.Fatalf("%s: no whole chat %s in it", templateRecording, templateID)
	}
	for i, frame := range outputs {
		all := elements(tb, frame)
		one := elements(tb, elements(tb, all[1])[0])
		switch i {
		case 0:
			p.first, p.stats, p.behind = one, all[2], bytes.Join(all[4:], nil)
		case len(outputs) - 1:
			p.last = one
		default:
			p.middle = append(p.middle, one)
		}
	}
	return p
}

// write sorts a write of the response.
func (p *template) write(tb testing.TB, data []byte) {
	tb.Helper()
	if bytes.HasPrefix(data, []byte("HTTP/1.1 ")) {
		p.response = data
		return
	}
	if bytes.HasPrefix(data, []byte("0\r\n")) {
		p.lastChunk = data
		return
	}
	_, doc, ok := bytes.Cut(data, []byte("\r\n"))
	doc, whole := bytes.CutSuffix(doc, []byte("\r\n"))
	if !ok || !whole {
		tb.Fatalf("write %q is not one chunk", data)
	}
	switch {
	case bytes.Contains(doc, []byte(`"role":"assistant"`)):
		p.role = doc
	case bytes.Contains(doc, []byte(`"finish_reason":"`)):
		p.contentLast = doc
	case bytes.Contains(doc, []byte(`"finish_reason":null`)):
		p.content = append(p.content, doc)
	case bytes.Contains(doc, []byte(`"usage":{`)):
		p.usage = doc
		m := regexp.MustCompile(`"prompt_tokens":(\d+)`).FindSubmatch(doc)
		p.promptTokens, _ = strconv.Atoi(string(m[1]))
	default:
		p.done = data
	}
}

// elements takes an array apart.
func elements(tb testing.TB, b []byte) (list [][]byte) {
	tb.Helper()
	n, rest, err := msgp.ReadArrayHeaderBytes(b)
	for ; n > 0 && err == nil; n-- {
		var behind []byte
		if behind, err = msgp.Skip(rest); err == nil {
			list = append(list, rest[:len(rest)-len(behind)])
			rest = behind
		}
	}
	if err != nil {
		tb.Fatalf("read array: %v", err)
	}
	return list
}

// setInt sets a number in a map.
func setInt(tb testing.TB, b []byte, key string, to int) []byte {
	tb.Helper()
	k := msgp.AppendString(nil, key)
	i := bytes.Index(b, k)
	if i < 0 {
		tb.Fatalf("no %q in %x", key, b)
	}
	i += len(k)
	behind, err := msgp.Skip(b[i:])
	if err != nil {
		tb.Fatalf("read %q: %v", key, err)
	}
	return bytes.Join([][]byte{b[:i], msgp.AppendInt(nil, to), behind}, nil)
}

// appendArray appends an array of elements that are encoded already, with the header
// that msgspec writes.
func appendArray(dst []byte, list [][]byte) []byte {
	dst = msgp.AppendArrayHeader(dst, uint32(len(list)))
	for _, e := range list {
		dst = append(dst, e...)
	}
	return dst
}

// chunk wraps an SSE document.
func chunk(doc []byte) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(doc), doc) }

var (
	contentLength = regexp.MustCompile(`Content-Length: \d+`)
	maxTokens     = regexp.MustCompile(`"max_tokens": \d+`)
	tokenCount    = regexp.MustCompile(`"completion_tokens":\d+`)
	totalCount    = regexp.MustCompile(`"total_tokens":\d+`)
	traceID       = regexp.MustCompile(`traceparent: 00-[0-9a-f]{32}`)
)

// httpRequest is the chat's request for tokens tokens, without the id that its client
// chose: mostly the server makes one.
func (p *template) httpRequest(number uint64, tokens int) []byte {
	head, body, _ := bytes.Cut(p.request, []byte("\r\n\r\n"))
	body = maxTokens.ReplaceAll(body, fmt.Appendf(nil, `"max_tokens": %d`, tokens))
	head = bytes.Replace(head, []byte("\r\nX-Request-Id: fixture-1"), nil, 1)
	head = contentLength.ReplaceAll(head, fmt.Appendf(nil, "Content-Length: %d", len(body)))
	head = traceID.ReplaceAll(head, fmt.Appendf(nil, "traceparent: 00-%032x", number))
	return bytes.Join([][]byte{head, body}, []byte("\r\n\r\n"))
}

// usageDoc is the event with the usage.
func (p *template) usageDoc(id string, tokens int) []byte {
	doc := bytes.ReplaceAll(p.usage, []byte(templateID), []byte(id))
	doc = tokenCount.ReplaceAll(doc, fmt.Appendf(nil, `"completion_tokens":%d`, tokens))
	return totalCount.ReplaceAll(doc, fmt.Appendf(nil, `"total_tokens":%d`, tokens+p.promptTokens))
}
