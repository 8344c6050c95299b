package checksum

import "testing"

func TestList(t *testing.T) {
	got := string(List(map[string][]byte{"b": []byte("abc"), "a": nil}))
	// The sums are those of FIPS 180-4's examples.
	want := "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n" +
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  b\n"
	if got != want {
		t.Errorf("List() = %q; want %q", got, want)
	}
}
