package ebpf
import ("testing";"os";"log/slog";"time";"os/exec")
func TestStress(t *testing.T){
	needPrivileges(t)
	for i := range 12 {
	s, err := Open(Options{Root: os.Getpid(), Log: slog.New(slog.DiscardHandler)})
	if err != nil { t.Fatal(err) }
	for j := range 6 {
	  b := time.Now()
	  tm := time.AfterFunc(800*time.Millisecond, func(){ out, _ := exec.Command("sh","-c","for p in $(cat /proc/"+itoa(os.Getpid())+"/task/*/children) ; do echo == $p; cat /proc/$p/stat | cut -c1-60; cat /proc/$p/stack; done; echo parent; for t in /proc/"+itoa(os.Getpid())+"/task/*; do grep -v ' D ' $t/stat >/dev/null ; s=$(cat $t/stack); case \"$s\" in *futex*|*epoll*) ;; *) echo \"$s\";; esac; done").CombinedOutput(); t.Log(string(out)) })
	  err = s.SelfTest(t.Context()); tm.Stop()
	  for k := range s.features { s.features[k].Err=nil }
	  if err != nil {t.Log(i, j, time.Since(b), err)}
	}
	s.Close()
	}
}
func itoa(n int) string { b := ""; for n > 0 { b = string(rune('0'+n%10))+b; n/=10 }; return b }
