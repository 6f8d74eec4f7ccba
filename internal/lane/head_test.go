package lane

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const path = "/v1/chat/completions"

func onPath(p string) bool { return p == path }

func TestWhatIsPlain(t *testing.T) {
	line := "POST " + path + " HTTP/1.1\r\n"
	for text, want := range map[string]bool{
		line + "Host: a:1\r\nContent-Length: 2\r\n\r\n{}":                                    true,
		line + "host: [::1]\r\ncontent-length:2 \r\nx: \r\nConnection: Close\r\n\r\n":        true,
		line + "Host: a\r\nContent-Length: 0\r\nX: 1\r\nX: 2\r\n\r\n":                        true,
		line + "Host: a\r\nContent-Length: 101\r\n\r\n":                                      false,
		line + "Host: a\r\nContent-Length: 2\r\n":                                            false,
		line + "Host: a\r\nHost: b\r\nContent-Length: 2\r\n\r\n":                             false,
		line + "Host: a/b\r\nContent-Length: 2\r\n\r\n":                                      false,
		line + "Content-Length: 2\r\n\r\n":                                                   false,
		line + "Host: a\r\n\r\n":                                                             false,
		line + "Host: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n":                   false,
		line + "Host: a\r\nContent-Length: 2, 2\r\n\r\n":                                     false,
		line + "Host: a\r\nContent-Length: +2\r\n\r\n":                                       false,
		line + "Host: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n":          false,
		line + "Host: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n":                false,
		line + "Host: a\r\nContent-Length: 2\r\nConnection: X-Hop\r\n\r\n":                   false,
		line + "Host: a\r\nContent-Length: 2\r\nX: a\r\n b\r\n\r\n":                          false,
		line + "Host: a\r\nContent-Length: 2\r\nX: a\nY: b\r\n\r\n":                          false,
		line + "Host: a\r\nContent-Length: 2\r\nX : a\r\n\r\n":                               false,
		line + "Host: a\r\nContent-Length: 2\r\nX: \x80\r\n\r\n":                             false,
		line + "Host: a\r\nContent-Length: 2" + strings.Repeat("\r\nX: y", 100) + "\r\n\r\n": false,
		"POST " + path + " HTTP/1.0\r\nHost: a\r\nContent-Length: 2\r\n\r\n":                 false,
		"POST " + path + "?a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n":               false,
		"POST http://a" + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n":         false,
		"POST  " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n":                false,
		"GET " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n":                  false,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                                                   false,
	} {
		if _, _, ok := parse([]byte(text), onPath, 100); ok != want {
			t.Errorf("%.100q: plain is %v", text, ok)
		}
	}
}

// FuzzHead holds what is taken for plain against net/http: it must read the same request, to the same byte.
func FuzzHead(f *testing.F) {
	for _, text := range []string{
		"POST " + path + " HTTP/1.1\r\nHost: a:1\r\nContent-Length: 2\r\n\r\n{}",
		"POST " + path + " HTTP/1.1\r\nHost: a\r\ncontent-length:\t1\t\r\nX: 1\r\nx: 2\r\nConnection: close\r\n\r\nxPOST ",
		"POST " + path + " HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 1\r\n\r\nx",
		"POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST " + path + " HTTP/1.1\r\nHost: a\r\nX: a\r\n b: c\r\nContent-Length: 1\r\n\r\nx",
		"POST " + path + " HTTP/1.1\nHost: a\nContent-Length: 1\n\nx",
		"POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: 1\rX: y\r\n\r\nx",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		h, n, ok := parse(text, onPath, 1<<20)
		if !ok {
			return
		}
		in := bufio.NewReader(bytes.NewReader(text))
		r, err := http.ReadRequest(in)
		if err != nil {
			t.Fatalf("%q is plain here and nothing for net/http: %v", text, err)
		}
		if r.Method != http.MethodPost || r.URL.Path != h.path || r.RequestURI != h.path || r.Host != h.host || r.ContentLength != h.length || r.Close != h.close ||
			r.ProtoMajor != 1 || r.ProtoMinor != 1 || len(r.TransferEncoding) > 0 || len(r.Trailer) > 0 {
			t.Fatalf("%q: here %+v, for net/http %+v", text, h, r)
		}
		if !maps.EqualFunc(r.Header, h.header, slices.Equal) {
			t.Fatalf("%q: here %q, for net/http %q", text, h.header, r.Header)
		}
		got, err := io.ReadAll(r.Body)
		if want := text[n:min(int64(len(text)), int64(n)+h.length)]; !bytes.Equal(got, want) || (err == nil) != (int64(len(want)) == h.length) {
			t.Fatalf("%q: the body is %q here, for net/http %q, %v", text, want, got, err)
		}
	})
}
