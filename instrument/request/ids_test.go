package request

import "testing"

func TestGroupKey(t *testing.T) {
	for name, c := range map[string]struct {
		id, external  string
		suffixed      bool
		key           string
		child, prompt int
	}{
		"chat before 0.14":                    {"chatcmpl-8e24c8d495", "", false, "chatcmpl-8e24c8d495", -1, 0},
		"chat with suffix and external id":    {"chatcmpl-8e24-851ba3ad", "chatcmpl-8e24", true, "chatcmpl-8e24", -1, 0},
		"chat with suffix, external cut off":  {"chatcmpl-8e24-851ba3ad", "", true, "chatcmpl-8e24", -1, 0},
		"a client's id that looks suffixed":   {"chatcmpl-job-12345678", "", false, "chatcmpl-job-12345678", -1, 0},
		"a client's id, then the real suffix": {"chatcmpl-job-12345678-0a1b2c3d", "", true, "chatcmpl-job-12345678", -1, 0},
		"completion, only prompt":             {"cmpl-97c8-0-0a1b2c3d", "cmpl-97c8-0", true, "cmpl-97c8", -1, 0},
		"completion, third prompt":            {"cmpl-97c8-2", "", false, "cmpl-97c8", -1, 2},
		"child of n = 2, old":                 {"1_chatcmpl-ac2c", "", false, "chatcmpl-ac2c", 1, 0},
		"child of a completion":               {"1_cmpl-a5cf-0-0a1b2c3d", "cmpl-a5cf-0", true, "cmpl-a5cf", 1, 0},
		"response, first turn":                {"resp_b976_0-0a1b2c3d", "resp_b976_0", true, "resp_b976", -1, 0},
		"response, second turn":               {"resp_b976_1", "", false, "resp_b976", -1, 1},
		"a client's id with digits and dash":  {"cmpl-abc-7-0", "", false, "cmpl-abc-7", -1, 0},
		"embedding of the second text":        {"embd-fixture-emb-1", "", false, "embd-fixture-emb", -1, 1},
		"completion id without an index":      {"cmpl-97c8", "", false, "cmpl-97c8", -1, 0},
		"digits too long for an index":        {"cmpl-1-12345678901234567890", "", false, "cmpl-1-12345678901234567890", -1, 0},
		"only a suffix":                       {"-0a1b2c3d", "", true, "-0a1b2c3d", -1, 0},
		"empty":                               {"", "", true, "", -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			key, child, prompt := groupKey(c.id, c.external, c.suffixed)
			if key != c.key || child != c.child || prompt != c.prompt {
				t.Errorf("groupKey(%q, %q, %v) = %q, %d, %d; want %q, %d, %d", c.id, c.external, c.suffixed, key, child, prompt, c.key, c.child, c.prompt)
			}
		})
	}
}

func FuzzGroupKey(f *testing.F) {
	f.Add("1_cmpl-a5cf-0-0a1b2c3d", "cmpl-a5cf-0", true)
	f.Add("resp_b976_1", "", false)
	f.Fuzz(func(t *testing.T, id, external string, suffixed bool) {
		if _, child, prompt := groupKey(id, external, suffixed); child < -1 || prompt < 0 {
			t.Errorf("groupKey(%q, %q, %v): child %d, prompt %d", id, external, suffixed, child, prompt)
		}
	})
}
