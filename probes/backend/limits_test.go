package backend

import "testing"

func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   Limits
		min  int
		want Limits // zero: refused
	}{
		{"defaults", Limits{}, 4096, Limits{DefaultHeadBytes, DefaultTailBytes, DefaultFrameBytes, DefaultRingBytes}},
		{"ring rounded up", Limits{RingBytes: 5<<20 + 1}, 4096, Limits{DefaultHeadBytes, DefaultTailBytes, DefaultFrameBytes, 8 << 20}},
		{"small ring", Limits{RingBytes: 1}, 4096, Limits{DefaultHeadBytes, DefaultTailBytes, DefaultFrameBytes, 4096}},
		{"head without tail", Limits{HeadBytes: 1}, 4096, Limits{}},
		{"too much", Limits{HeadBytes: MaxCaptureBytes, TailBytes: 1}, 4096, Limits{}},
		{"negative tail", Limits{HeadBytes: 1, TailBytes: -1}, 4096, Limits{}},
		{"frame", Limits{FrameBytes: MaxFrameBytes + 1}, 4096, Limits{}},
		{"negative ring", Limits{RingBytes: -1}, 4096, Limits{}},
		{"huge ring", Limits{RingBytes: MaxRingBytes + 1}, 4096, Limits{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.in.WithDefaults(tc.min)
			if refused := tc.want == (Limits{}); refused != (err != nil) || !refused && got != tc.want {
				t.Errorf("%+v.WithDefaults(%d) = %+v, %v; want %+v", tc.in, tc.min, got, err, tc.want)
			}
		})
	}
}
