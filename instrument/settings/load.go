package settings

// From the table and the sources to values, and to what is reported about them.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Flag is a flag that the user gave, with its text ("true" or "false" for a KindBool).
type Flag struct{ Name, Value string }

// Input is where settings come from.
type Input struct {
	// Getenv gives a variable; "" is unset. nil: no variable is set.
	Getenv func(string) string
	// Flags in the order in which they were given; the last of a name counts.
	Flags []Flag
}

// SourceDefault is the source of a value that nobody set.
const SourceDefault = "default"

// Load reads all settings. Bad variables become Settings.Warnings; the error is a
// *FlagError and the first flag whose value cannot be used.
func Load(in Input) (*Settings, error) {
	if in.Getenv == nil {
		in.Getenv = func(string) string { return "" }
	}
	l := &loader{in: in, results: make(map[string]*result, len(table))}
	// Attributes first: other settings look into them.
	for _, name := range []string{NameResourceAttributes} {
		if err := l.resolve(spec(name)); err != nil {
			return nil, err
		}
	}
	for _, sp := range table {
		if l.results[sp.Name] != nil || sp.Kind == KindURL {
			continue
		}
		if err := l.resolve(sp); err != nil {
			return nil, err
		}
	}
	l.deriveOTLP()
	l.deriveSampler()
	l.deriveBatch()
	l.checkTogether()
	return l.settings(), nil
}

// spec finds a setting of the table by name; a wrong name is a mistake in this package.
func spec(name string) *Spec {
	for _, sp := range table {
		if sp.Name == name {
			return sp
		}
	}
	panic("settings: no setting is called " + name)
}

// result is a setting's value and where it came from.
type result struct {
	value  any    // nil: unset
	source string // SourceDefault, "VAR", "VAR[key]", "--flag", or words
}

// problem is a Warning whose Using is not known before everything is derived.
type problem struct {
	spec           *Spec
	variable, text string
	what           string
	using          string // set where the words are special
}

type loader struct {
	in       Input
	results  map[string]*result
	problems []problem
}

// resolve finds a setting's value: flag, variables in order, default.
func (l *loader) resolve(sp *Spec) error {
	if text, given := l.flag(sp); given {
		value, what := parse(sp, text)
		if text == "" {
			value, what = nil, "needs a value"
		}
		if what != "" {
			return &FlagError{Flag: sp.Flag, Value: quote(text), Problem: what}
		}
		l.set(sp.Name, value, "--"+sp.Flag)
		return nil
	}
	for _, variable := range sp.Env {
		text := l.getenv(variable)
		if text == "" {
			continue
		}
		value, what := parse(sp, text)
		if what != "" {
			l.problems = append(l.problems, problem{spec: sp, variable: variable, text: text, what: what})
		}
		if value != nil {
			l.set(sp.Name, value, variable)
			return nil
		}
	}
	var value any
	if sp.Default != "" {
		value, _ = parse(sp, sp.Default)
	}
	l.set(sp.Name, value, SourceDefault)
	return nil
}

// flag gives the text of the setting's flag.
func (l *loader) flag(sp *Spec) (text string, given bool) {
	if sp.Flag == "" {
		return "", false
	}
	for _, f := range slices.Backward(l.in.Flags) {
		if f.Name == sp.Flag {
			return f.Value, true
		}
	}
	return "", false
}

// getenv gives the text of a variable, or for "VAR[key]" the value of key in it.
func (l *loader) getenv(variable string) string {
	if name, key, ok := strings.Cut(variable, "["); ok && name == "OTEL_RESOURCE_ATTRIBUTES" {
		text, _ := get[Attributes](l, NameResourceAttributes).Get(strings.TrimSuffix(key, "]"))
		return strings.TrimSpace(text)
	}
	return strings.TrimSpace(l.in.Getenv(variable))
}

// firstSet gives the first variable of a setting that is not empty, whatever it holds.
func (l *loader) firstSet(sp *Spec) (variable, text string) {
	for _, variable := range sp.Env {
		if text := l.getenv(variable); text != "" {
			return variable, text
		}
	}
	return "", ""
}

func (l *loader) set(name string, value any, source string) {
	l.results[name] = &result{value, source}
}

func (l *loader) source(name string) string { return l.results[name].source }

// warn adds a Warning about a setting as a whole, named by where it came from.
func (l *loader) warn(name, what, using string) {
	l.problems = append(l.problems, problem{spec: spec(name), variable: l.source(name), what: what, using: using})
}

// get gives a setting's value, or the zero value where it is unset.
func get[T any](l *loader, name string) T {
	value, _ := l.results[name].value.(T)
	return value
}

// warnings words the problems in the order of the table.
func (l *loader) warnings() []Warning {
	position := func(p problem) int { return slices.Index(table, p.spec) }
	slices.SortStableFunc(l.problems, func(a, b problem) int { return position(a) - position(b) })
	var ws []Warning
	for _, p := range l.problems {
		w := Warning{Variable: p.variable, Problem: p.what, Using: p.using}
		if p.text != "" && !p.spec.secretText() && !strings.Contains(p.text, "-----BEGIN") {
			w.Value = quote(p.text)
		}
		if w.Using == "" {
			w.Using = "it is ignored"
			if r := l.results[p.spec.Name]; r.value != nil {
				w.Using = "using " + display(r.value) + fromWhere(r.source, p.variable)
			}
		}
		ws = append(ws, w)
	}
	return ws
}

// fromWhere words the source of the value that is used instead; "" where it is the
// very variable that the warning is about (a part of it is used).
func fromWhere(source, variable string) string {
	switch source {
	case variable:
		return ""
	case SourceDefault:
		return " (the default)"
	}
	return " from " + source
}

// display words a value for people. Secrets are masked by their own types.
func display(value any) string {
	var s string
	switch v := value.(type) {
	case nil:
		return "-"
	case string:
		s = v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case time.Duration:
		return strconv.FormatInt(v.Milliseconds(), 10) + "ms"
	case []string:
		if len(v) == 0 {
			return ExporterNone
		}
		return strings.Join(v, ",")
	case fmt.Stringer:
		s = v.String()
	default:
		panic(fmt.Sprintf("settings: no display for %T", value))
	}
	if !printable(s) {
		return strconv.Quote(s)
	}
	return s
}
