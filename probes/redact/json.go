package redact

// The JSON machine works on pieces: it looks at each byte once and never ahead. So a
// string that may stay only if it is on a list stays as long as it can still become
// one of the list, and is overwritten from its start, as far as that lies in the same
// piece, when it cannot.

// Limits of the JSON that is followed.
const (
	// maxJSONDepth bounds the stack. Servers' own parsers stop at 200 (pydantic) to
	// 1,000 (CPython) levels.
	maxJSONDepth = 512
)

type jsonState uint8

const (
	jsonValue      jsonState = iota // a value must follow
	jsonValueOrEnd                  // a value or ']' (after '[')
	jsonKey                         // a key must follow (after ',')
	jsonKeyOrEnd                    // a key or '}' (after '{')
	jsonInKey
	jsonColon
	jsonInString
	jsonInNumber
	jsonInLiteral
	jsonAfter // after a value: ',' or an end
	jsonBracket
	jsonDone // after the whole text
	jsonLost
)

type jsonFrame struct {
	node  *node
	array bool
}

// jsonRedactor follows one JSON text that comes in pieces. A fault in the text makes
// it lose track for good. The zero value needs reset.
type jsonRedactor struct {
	root *node
	done bool // an event stream's "[DONE]" is known
	// behind says that bytes of an object are missing and nothing else was wrong.
	behind bool
	state  jsonState
	stack  []jsonFrame
	node   *node // describes the value to come, or the one we are in
	token  jsonToken
}

// reset starts a new text that root describes; the stack's memory is kept.
func (j *jsonRedactor) reset(root *node) {
	*j = jsonRedactor{root: root, done: j.done, stack: j.stack[:0], node: root}
}

// lose makes everything up to reset unknown: bytes are missing. Only the members at the
// end of an object can be found again, see end.
func (j *jsonRedactor) lose() {
	if j.state != jsonLost {
		j.behind = len(j.stack) > 0 && !j.stack[0].array
	}
	j.state = jsonLost
}

// redact overwrites p, the next piece of the text.
func (j *jsonRedactor) redact(p []byte) {
	start := 0 // of the current token, as far as it lies in p
	for i := 0; i < len(p); i++ {
		switch j.state {
		case jsonLost:
			fill(p[i:], 'x')
			return
		case jsonInKey:
			j.inKey(p, start, i)
		case jsonInString:
			j.inString(p, start, i)
		case jsonInLiteral:
			j.inLiteral(p, i)
		case jsonInNumber:
			if !j.inNumber(p, i) {
				i--
			}
		default:
			b := p[i]
			if b == ' ' || b == '\t' || b == '\n' || b == '\r' {
				continue
			}
			start = i + 1
			if !j.between(p, i, b) {
				j.state = jsonLost
				i--
			}
		}
	}
}

// between takes a byte outside of tokens; false is a fault.
func (j *jsonRedactor) between(p []byte, i int, b byte) bool {
	switch j.state {
	case jsonBracket:
		// After the first '[' of an event's data: "[DONE]" or an array.
		if b == 'D' {
			j.state = jsonInLiteral
			j.token = jsonToken{literal: "DONE]", keep: true}
			j.inLiteral(p, i)
			return true
		}
		j.state = jsonValueOrEnd
		return j.push(true) && j.between(p, i, b)
	case jsonValueOrEnd:
		if b == ']' {
			return j.pop(true)
		}
		return j.value(p, i, b)
	case jsonValue:
		return j.value(p, i, b)
	case jsonKeyOrEnd:
		if b == '}' {
			return j.pop(false)
		}
		return j.key(b)
	case jsonKey:
		return j.key(b)
	case jsonColon:
		j.state = jsonValue
		return b == ':'
	case jsonAfter:
		if len(j.stack) == 0 {
			return false
		}
		array := j.stack[len(j.stack)-1].array
		switch {
		case b == ',' && array:
			j.node = j.stack[len(j.stack)-1].node
			j.state = jsonValue
		case b == ',':
			j.state = jsonKey
		case b == ']' || b == '}':
			return j.pop(b == ']')
		default:
			return false
		}
		return true
	}
	return false
}

func (j *jsonRedactor) value(p []byte, i int, b byte) bool {
	keep := j.node.scalar
	if n := len(j.stack); n > 0 && j.stack[n-1].array && !j.node.list {
		keep = false
	}
	switch b {
	case '{':
		j.state = jsonKeyOrEnd
		return j.push(false)
	case '[':
		if j.done && len(j.stack) == 0 {
			j.state = jsonBracket
			return true
		}
		j.state = jsonValueOrEnd
		return j.push(true)
	case '"':
		j.beginString()
		return true
	case 't':
		j.token = jsonToken{literal: "true", keep: keep}
	case 'f':
		j.token = jsonToken{literal: "false", keep: keep}
	case 'n':
		j.token = jsonToken{literal: "null", keep: true}
	default:
		if b != '-' && (b < '0' || b > '9') {
			return false
		}
		j.token = jsonToken{keep: keep}
		j.state = jsonInNumber
		return j.inNumber(p, i)
	}
	j.state = jsonInLiteral
	j.inLiteral(p, i)
	return true
}
func (j *jsonRedactor) push(array bool) bool {
	if len(j.stack) == maxJSONDepth {
		return false
	}
	j.stack = append(j.stack, jsonFrame{j.node, array})
	return true
}

func (j *jsonRedactor) pop(array bool) bool {
	n := len(j.stack)
	if n == 0 || j.stack[n-1].array != array {
		return false
	}
	j.stack = j.stack[:n-1]
	j.ended()
	return true
}

// ended is called after each value.
func (j *jsonRedactor) ended() {
	j.state = jsonAfter
	if len(j.stack) == 0 {
		j.state = jsonDone
	}
}
