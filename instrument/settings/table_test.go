package settings

import (
	"regexp"
	"slices"
	"testing"
)

// TestTable holds the table to its own rules.
func TestTable(t *testing.T) {
	names, flags := map[string]bool{}, map[string]bool{}
	flagName := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	for _, sp := range Specs() {
		if names[sp.Name] {
			t.Errorf("two settings are called %s", sp.Name)
		}
		names[sp.Name] = true
		if sp.Help == "" || sp.Flag == "" && len(sp.Env) == 0 {
			t.Errorf("%s: no help, or nothing that sets it", sp.Name)
		}
		if sp.Flag != "" {
			if flags[sp.Flag] || !flagName.MatchString(sp.Flag) {
				t.Errorf("%s: flag %q is taken or badly formed", sp.Name, sp.Flag)
			}
			flags[sp.Flag] = true
			if sp.secretText() {
				t.Errorf("%s: a secret has a flag; the command line is public", sp.Name)
			}
			if sp.TakesValue() == (sp.Placeholder == "") {
				t.Errorf("%s: placeholder %q does not fit its kind", sp.Name, sp.Placeholder)
			}
		}
		if sp.Default != "" {
			if v, problem := parse(sp, sp.Default); v == nil || problem != "" {
				t.Errorf("%s: default %q = %v, %q; want a value", sp.Name, sp.Default, v, problem)
			}
		}
		if wantsValues := sp.Kind == KindEnum || sp.Kind == KindList; wantsValues != (sp.Values != nil) {
			t.Errorf("%s: choices %v do not fit its kind", sp.Name, sp.Values)
		}
		if slices.Contains([]Kind{KindInt, KindMillis}, sp.Kind) && sp.Max <= sp.Min {
			t.Errorf("%s: bounds %d to %d", sp.Name, sp.Min, sp.Max)
		}
	}
	entries := load(t, Input{}).Entries()
	if len(entries) != len(Specs()) {
		t.Errorf("%d entries; want one for each of the %d settings", len(entries), len(Specs()))
	}
}
