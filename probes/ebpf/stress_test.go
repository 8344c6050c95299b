package ebpf
import ("testing";"os";"context";"log/slog";"time")
func TestStress(t *testing.T){
	needPrivileges(t)
	for i := range 12 {
	s, err := Open(Options{Root: os.Getpid(), Log: slog.New(slog.DiscardHandler)})
	if err != nil { t.Fatal(err) }
	ctx, cancel := context.WithCancel(t.Context()); cancel()
	for j := range 6 {
	  c := t.Context()
	  if j % 2 == 0 { c = ctx }
	  b := time.Now()
	  err = s.SelfTest(c); for k := range s.features { s.features[k].Err=nil }
	  if j%2==1 && err != nil {t.Log(i, j, time.Since(b), err); for _, f := range s.features { if f.Err!=nil {t.Log(f)} } }
	}
	s.Close()
	}
}
