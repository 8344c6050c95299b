package redact

// sseFields are the names of an event's lines with what ends them. A line that
// begins with ':' is a comment.
var sseFields = newWords(":", "data:", "event:", "id:", "retry:")

type sseState uint8

const (
	sseField sseState = iota // in a line's name, or at its start
	sseSpace                 // behind "data:" or "event:": one space may follow
	sseData
	sseEvent
	sseOther // in a line that is blanked
	sseLost  // up to the next empty line
)

// sseRedactor follows a text/event-stream: the data of each event is one JSON text.
// The zero value needs reset.
type sseRedactor struct {
	json  *jsonRedactor
	root  *node
	state sseState
	m     matcher // of the field's name or the event's
	field int     // index in sseFields
	keep  bool    // the event's name may stay so far
	line  int     // bytes in this line, its end not counted
	cr    bool    // the last byte was a CR
}

func (s *sseRedactor) reset(j *jsonRedactor, root *node) {
	*s = sseRedactor{json: j, root: root, m: sseFields.matcher()}
	j.done = true
	j.reset(root)
}

// lose makes everything up to the next empty line unknown.
func (s *sseRedactor) lose() {
	s.state = sseLost
	s.line = 1 // what follows may be the rest of a line
	s.cr = false
}

// redact overwrites p, the next piece of the stream. Line ends stay.
func (s *sseRedactor) redact(p []byte) {
	start := 0 // of the current name, as far as it lies in p
	for i := 0; i < len(p); i++ {
		b := p[i]
		if b == '\n' && s.cr {
			s.cr = false // CR LF is one line end
			start = i + 1
			continue
		}
		s.cr = b == '\r'
		if b == '\n' || b == '\r' {
			s.endLine(p, start, i)
			start = i + 1
			continue
		}
		s.line++
		switch s.state {
		case sseField:
			if !s.m.step(sseFields, b) {
				fill(p[start:i+1], 'x')
				s.state = sseOther
			} else if s.field = s.m.index(sseFields); s.field >= 0 {
				s.beginValue()
				start = i + 1
			}
		case sseSpace:
			s.state = sseData
			if sseFields[s.field] == "event:" {
				s.state = sseEvent
			}
			if b == ' ' {
				start = i + 1
				break
			}
			i--
			s.line--
		case sseData:
			end := i + 1
			for end < len(p) && p[end] != '\n' && p[end] != '\r' {
				end++
			}
			s.json.redact(p[i:end])
			s.line += end - i - 1
			i = end - 1
		case sseEvent:
			if s.keep && !s.m.step(apiWords, b) {
				s.keep = false
				fill(p[start:i], 'X')
			}
			if !s.keep {
				p[i] = 'X'
			}
		default:
			p[i] = 'x'
		}
	}
}

// beginValue goes on behind a field's name.
func (s *sseRedactor) beginValue() {
	switch sseFields[s.field] {
	case "data:":
		s.state = sseSpace
	case "event:":
		s.state = sseSpace
		s.keep = true
		s.m = apiWords.matcher()
	default:
		s.state = sseOther
	}
}

func (s *sseRedactor) endLine(p []byte, start, end int) {
	empty := s.line == 0
	switch {
	case s.state == sseEvent && s.keep && s.m.index(apiWords) < 0,
		s.state == sseField && !empty: // a name without a value
		fill(p[start:end], 'X')
	case s.state == sseData:
		// Several data lines are one text, joined by line ends. JSON has none inside of
		// its tokens: this makes the machine see it.
		lf := [1]byte{'\n'}
		s.json.redact(lf[:])
	}
	s.line = 0
	if empty {
		s.json.reset(s.root)
		s.state = sseField
	} else if s.state != sseLost {
		s.state = sseField
	}
	s.m = sseFields.matcher()
}
