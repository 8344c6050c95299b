package redact

// The end of a JSON text whose middle was not captured.

// end overwrites p, which is the end of a whole text some of whose bytes are missing
// before it. From there backwards one is outside of strings first, and backslashes
// stand only inside of them, so the object's own commas can be found; behind the first
// of them the text can be followed again.
func (j *jsonRedactor) end(p []byte) {
	comma := ownComma(p)
	if !j.behind || comma < 0 {
		fill(p, 'x')
		return
	}
	fill(p[:comma], 'x')
	root := j.root
	j.reset(root)
	j.stack = append(j.stack, jsonFrame{root, false})
	j.state = jsonKey
	j.redact(p[comma+1:])
	if j.state != jsonDone {
		fill(p, 'x') // not what it looked like from behind
		j.state = jsonLost
	}
}

// ownComma finds the first comma in p that is known to stand between members of the
// text's own object; −1 without one.
func ownComma(p []byte) int {
	i := len(p) - 1
	for i >= 0 && (p[i] == ' ' || p[i] == '\t' || p[i] == '\n' || p[i] == '\r') {
		i--
	}
	if i < 0 || p[i] != '}' {
		return -1
	}
	comma, depth, inside := -1, 1, false
	for i--; i >= 0; i-- {
		switch b := p[i]; {
		case b == '"':
			slashes := 0
			for i > 0 && p[i-1] == '\\' {
				slashes++
				i--
			}
			if slashes > 0 && i == 0 {
				return comma // there may be more of them before p
			}
			if slashes%2 == 0 {
				inside = !inside
			}
		case inside:
		case b == '}' || b == ']':
			depth++
		case b == '{' || b == '[':
			if depth--; depth == 0 {
				return -1 // the text's start, which was seen elsewhere
			}
		case b == ',' && depth == 1:
			comma = i
		}
	}
	return comma
}
