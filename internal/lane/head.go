package lane

import (
	"bytes"
	"net/http"
	"strings"

	"berth/internal/plain"
)

// head is a plain request without its body.
type head struct {
	path, host string
	header     http.Header // without Host, as in net/http
	length     int64       // of the body
	close      bool        // the client asked for the connection's end
}

// special are the headers that ask for more than an answer, or that net/http reads in a way of its own.
var special = [...]string{"Transfer-Encoding", "Expect", "Upgrade", "Te", "Trailer", "Http2-Settings", "Proxy-Connection", "Keep-Alive", "Pragma"}

// parse reads a head from the begin of b. It returns how many bytes it took; ok is false for whatever is not plain, be it
// that it has not all come.
func parse(b []byte, paths func(string) bool, maxBody int64) (h head, n int, ok bool) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 || !bytes.HasPrefix(b, []byte("POST /")) {
		return h, 0, false
	}
	line, rest, _ := strings.Cut(string(b[:end]), "\r\n")
	path, found := strings.CutSuffix(line[len("POST "):], " HTTP/1.1")
	if !found || !paths(path) {
		return h, 0, false
	}
	if h.header = plain.Header(rest); h.header == nil {
		return h, 0, false
	}
	for _, name := range special {
		if h.header[name] != nil {
			return h, 0, false
		}
	}
	hosts := h.header["Host"]
	if len(hosts) != 1 || hosts[0] == "" || !plain.All(hosts[0], plain.Host) {
		return h, 0, false
	}
	delete(h.header, "Host")
	h.path, h.host, h.length = path, hosts[0], plain.Length(h.header["Content-Length"])
	h.close, ok = plain.Close(h.header["Connection"])
	return h, end + 4, ok && 0 <= h.length && h.length <= maxBody
}
