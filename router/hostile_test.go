package router

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestHostileRequests: what two programs could read differently, and what could cost memory or time, ends in a client's
// error or a closed connection, and no engine sees it.
func TestHostileRequests(t *testing.T) {
	line, good := "POST "+chatPath+" HTTP/1.1\r\n", chatBody
	headers := func(h string) string { return line + "Host: x\r\n" + h + "\r\n\r\n" + good }
	length := fmt.Sprintf("Content-Length: %d", len(good))
	for name, text := range map[string]string{
		"both lengths":          headers(length + "\r\nTransfer-Encoding: gzip, chunked"),
		"two lengths":           headers(length + "\r\nContent-Length: 3"),
		"a length with a sign":  headers("Content-Length: +5"),
		"a space in a name":     headers(length + "\r\nX : a"),
		"a bare return":         headers(length + "\r\nX: a\rY: b"),
		"a null byte":           headers(length + "\r\nX: a\x00b"),
		"two hosts":             line + "Host: x\r\nHost: y\r\n" + length + "\r\n\r\n" + good,
		"no host":               line + length + "\r\n\r\n" + good,
		"unknown encoding":      headers("Transfer-Encoding: xchunked"),
		"chunked twice":         headers("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
		"a chunk of minus one":  line + "Host: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n" + good,
		"an endless chunk size": line + "Host: x\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("0", 1<<16) + "1\r\n",
		"a thousand headers":    headers(length + strings.Repeat("\r\nX: "+strings.Repeat("y", 100), 1000)),
		"an absurd method":      strings.Repeat("P", 1<<17) + " / HTTP/1.1\r\nHost: x\r\n\r\n",
		"HTTP/0.9":              "GET /v1/models\r\n\r\n",
		"a half body":           line + "Host: x\r\nContent-Length: 900\r\n\r\n" + good,
		"dribbled headers":      line + "Host: x\r\nX: ",
		"no request":            "\x16\x03\x01\x00\xa5",
		"a body of no length":   line + "Host: x\r\n\r\n" + good,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, nil)
				var calls atomic.Int64
				c.set(model("m", c.engine("a", "10.0.0.1", count(&calls, ok("a")))))
				conn, answers := c.raw("")
				go func() { _, _ = io.WriteString(conn, text) }() // the router may close before it has read all
				start := time.Now()
				for {
					resp, err := http.ReadResponse(answers, nil)
					if err != nil {
						break
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					if resp.StatusCode < 400 || resp.StatusCode >= 500 && resp.StatusCode != 501 && resp.StatusCode != 505 {
						t.Errorf("status %d", resp.StatusCode)
					}
				}
				conn.Close()
				if calls.Load() != 0 || time.Since(start) > 2*time.Minute {
					t.Errorf("%d requests reached the engine; over after %v", calls.Load(), time.Since(start))
				}
				if a := c.post(chatPath, chatBody); a.status != 200 {
					t.Errorf("afterwards: %d", a.status)
				}
			})
		})
	}
}

// TestAFoldedLineIsOneLine: an old form of long headers, which RFC 9112 (section 5.2) lets a server refuse or unfold, must
// not reach an engine as it is.
func TestAFoldedLineIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		var got atomic.Value
		c.set(model("m", c.engine("a", "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
			got.Store(r.Header.Get("X"))
			ok("a")(w, r)
		})))
		_, answers := c.raw(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nX: a\r\n b: c\r\nContent-Length: %d\r\n\r\n%s", chatPath, len(chatBody), chatBody))
		if resp, err := http.ReadResponse(answers, nil); err != nil || resp.StatusCode != 200 || got.Load() != "a b: c" {
			t.Errorf("%v, the engine saw %q", err, got.Load())
		}
	})
}
