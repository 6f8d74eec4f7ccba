package listen_test

import (
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/listen"
)

const (
	crowd = 10_000
	// crowdCost bounds what one of them may cost, both ends and the network between them included.
	crowdCost = 64 << 10
)

// Ten thousand connections on which nothing more comes: a third never says a word, a third stops in its headers, and a third has had one answer and keeps the
// connection. They cost a bounded amount of memory, an honest client is served among them, and all are closed by the server's own limits.
func TestTenThousandIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, listen.ServerOptions{H2C: true}, hello)
		before := inUse()
		var closed atomic.Int64
		var readers sync.WaitGroup
		var conns []net.Conn
		for i := range crowd {
			if i%1000 == 0 {
				synctest.Wait() // no more may wait to be accepted than Linux lets
			}
			c, err := s.host.Dial(t.Context(), addr)
			if err != nil {
				t.Fatalf("connection %d: %v", i, err)
			}
			conns = append(conns, c)
			text := []string{"", "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"}[i%3]
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatal(err)
			}
			readers.Go(func() {
				if _, err := io.Copy(io.Discard, c); err == nil {
					closed.Add(1)
				}
			})
		}
		time.Sleep(time.Second)
		if closed.Load() > 0 {
			t.Fatalf("%d are closed already: the test shows nothing", closed.Load())
		}
		cost := (inUse() - before) / crowd
		if cost > crowdCost {
			t.Errorf("a connection costs %d bytes", cost)
		}
		tr := listen.Transport(s.host)
		asked := time.Now()
		if resp, body, err := s.get(tr); err != nil || resp.StatusCode != http.StatusOK || body != "hello" || time.Since(asked) > time.Second {
			t.Errorf("an honest client: %q, %v, after %v", body, err, time.Since(asked))
		}
		tr.CloseIdleConnections()
		time.Sleep(listen.ReadHeaderTimeout)
		if n := closed.Load(); n < crowd*2/3 {
			t.Errorf("%d are closed once the time for headers has passed", n)
		}
		time.Sleep(listen.IdleTimeout)
		if n := closed.Load(); n != crowd {
			t.Errorf("%d of %d are closed in the end", n, crowd)
		}
		for _, c := range conns {
			_ = c.Close()
		}
		readers.Wait()
		s.stop()
		if err := <-s.done; err != nil {
			t.Error(err)
		}
		t.Logf("%d bytes a connection", cost)
	})
}

func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
