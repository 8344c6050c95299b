package instrument

// What `instrument config` prints.

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/tokenscope/tokenscope/instrument/settings"
)

// maxColumn bounds the width that a column is aligned to: one long endpoint should not
// push everything else off the screen.
const maxColumn = 44

// writeConfig prints one line for each setting: name, value, source, and what sets it.
func writeConfig(w io.Writer, s *settings.Settings) error {
	rows := [][]string{{"SETTING", "VALUE", "SOURCE", "SET BY"}}
	for _, e := range s.Entries() {
		rows = append(rows, []string{e.Spec.Name, e.Text, e.Source, strings.Join(setters(e.Spec), " ")})
	}
	var widths [3]int
	for _, row := range rows {
		for i := range widths {
			widths[i] = max(widths[i], min(utf8.RuneCountInString(row[i]), maxColumn))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, width := range widths {
			b.WriteString(row[i])
			b.WriteString(strings.Repeat(" ", max(width-utf8.RuneCountInString(row[i]), 0)+2))
		}
		b.WriteString(row[len(widths)] + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// setters names what sets a setting, highest precedence first.
func setters(sp *settings.Spec) []string {
	var names []string
	if sp.Flag != "" {
		names = append(names, "--"+sp.Flag)
	}
	return append(names, sp.Env...)
}

// configJSON is the form of `instrument config --json`.
type configJSON struct {
	Settings []settingJSON `json:"settings"`
	Warnings []string      `json:"warnings"`
}

type settingJSON struct {
	Name   string `json:"name"`
	Value  any    `json:"value"` // null: unset
	Unit   string `json:"unit,omitempty"`
	Source string `json:"source"`
	// SetBy are flags (with dashes) and variables, highest precedence first.
	SetBy []string `json:"set_by"`
	Help  string   `json:"help"`
}

// writeConfigJSON prints the same, and the warnings, as one JSON object.
func writeConfigJSON(w io.Writer, s *settings.Settings) error {
	out := configJSON{Warnings: []string{}}
	for _, e := range s.Entries() {
		unit := ""
		if e.Spec.Kind == settings.KindMillis {
			unit = "ms"
		}
		out.Settings = append(out.Settings, settingJSON{
			Name: e.Spec.Name, Value: e.JSON, Unit: unit, Source: e.Source,
			SetBy: setters(e.Spec), Help: e.Spec.Help,
		})
	}
	for _, warning := range s.Warnings {
		out.Warnings = append(out.Warnings, warning.String())
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(out); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}
