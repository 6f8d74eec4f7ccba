package lane

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"berth/internal/plain"
)

// smallBody is how many bytes of an answer of unknown length are kept until its end or a flush, so that a short answer
// gets a length. net/http keeps as many.
const smallBody = 2 << 10

// response is the writer of one answer. It is net/http's as far as a handler can tell.
type response struct {
	conn   *conn
	body   *body // of the request
	header http.Header
	status int // 0: not said yet

	out     *plain.Room // nil while nothing waits to be sent
	n       int
	small   []byte   // begin of a body whose head is not written yet
	headed  bool     // the head is written to its end
	later   []string // the lines of Trailer
	late    bool     // there are trailers, so that even a short body needs chunks
	length  int64    // that the handler announced; -1: none
	written int64
	chunked bool
	bare    bool  // the status has no body
	close   bool  // the connection ends with this answer
	err     error // of the connection
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. Informational statuses are not sent.
func (w *response) WriteHeader(status int) {
	if w.status != 0 || status < 200 {
		return
	}
	w.status = status
	w.bare = status == http.StatusNoContent || status == http.StatusNotModified
	if text := w.header.Get("Content-Length"); text != "" {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && !w.bare {
			w.length = n
		} else {
			w.header.Del("Content-Length")
		}
	}
	w.head()
}

// Write implements io.Writer.
func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.err != nil:
		return 0, w.err
	case len(p) == 0:
		return 0, nil
	case w.bare:
		return 0, http.ErrBodyNotAllowed
	}
	if w.written += int64(len(p)); w.length >= 0 && w.written > w.length {
		return 0, http.ErrContentLength
	}
	if !w.headed {
		if w.length < 0 && len(w.small)+len(p) <= smallBody {
			w.small = append(w.small, p...)
			return len(p), nil
		}
		w.begin(w.length < 0)
	}
	w.piece(p)
	return len(p), w.err
}

// begin writes the head and what of the body was kept.
func (w *response) begin(chunked bool) {
	w.headed, w.chunked = true, chunked
	w.framing()
	if small := w.small; len(small) > 0 {
		w.small = nil
		w.piece(small)
	}
}

// piece writes a piece of the body, as a chunk if need be.
func (w *response) piece(p []byte) {
	if !w.chunked {
		w.put(p)
		return
	}
	var line [20]byte
	w.put(append(strconv.AppendInt(line[:0], int64(len(p)), 16), "\r\n"...))
	w.put(p)
	w.text("\r\n")
}

// put adds bytes to what is to be sent. What does not fit is sent at once, together with what waits.
func (w *response) put(p []byte) {
	if w.err != nil {
		return
	}
	if w.out == nil {
		w.out = plain.TakeRoom()
	}
	if len(p) <= len(w.out)-w.n {
		w.n += copy(w.out[w.n:], p)
		return
	}
	list := net.Buffers{w.out[:w.n], p}
	_, w.err = list.WriteTo(w.conn.net)
	w.drop()
}

func (w *response) text(s string) {
	if w.out != nil && len(s) <= len(w.out)-w.n {
		w.n += copy(w.out[w.n:], s)
		return
	}
	w.put([]byte(s))
}

func (w *response) drop() {
	if w.out != nil {
		plain.GiveRoom(w.out)
		w.out, w.n = nil, 0
	}
}

// send sends what waits.
func (w *response) send() {
	if w.n > 0 && w.err == nil {
		_, w.err = w.conn.net.Write(w.out[:w.n])
	}
	w.drop()
}

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is Flush for an http.ResponseController.
func (w *response) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.headed {
		w.begin(w.length < 0 && !w.bare)
	}
	w.send()
	return w.err
}

// SetReadDeadline is for an http.ResponseController. It means nothing for a body that has come.
func (w *response) SetReadDeadline(t time.Time) error {
	if c := w.conn; w.body.left > int64(c.in.Buffered()) {
		c.current = t
		return c.net.SetReadDeadline(t)
	}
	return nil
}

// head writes the status and the header as it is now. What frames the message follows, when it is known.
func (w *response) head() {
	w.text("HTTP/1.1 ")
	var number [8]byte
	w.put(strconv.AppendInt(number[:0], int64(w.status), 10))
	w.text(" ")
	w.text(http.StatusText(w.status))
	w.text("\r\n")
	w.later = w.header["Trailer"]
	w.late = w.later != nil
	for name, values := range w.header {
		switch {
		case strings.HasPrefix(name, http.TrailerPrefix):
			w.late = true
		case name == "Connection", name == "Transfer-Encoding", len(w.later) > 0 && announced(w.later, name):
		default:
			w.fields(name, values)
		}
	}
	for _, v := range w.header["Connection"] {
		w.close = w.close || strings.EqualFold(v, "close")
	}
	if _, has := w.header["Date"]; !has {
		w.text("Date: ")
		w.text(w.conn.server.date())
		w.text("\r\n")
	}
}

// framing ends the head with the lines that this side decides.
func (w *response) framing() {
	switch {
	case w.chunked:
		w.text("Transfer-Encoding: chunked\r\n")
	case w.length < 0 && !w.bare:
		w.text("Content-Length: ")
		w.put(strconv.AppendInt(nil, int64(len(w.small)), 10))
		w.text("\r\n")
	}
	if w.close = w.close || w.conn.server.closing.Load() || w.body.err != nil; w.close {
		w.text("Connection: close\r\n")
	}
	w.text("\r\n")
}

// fields writes lines. A line break within a value would begin another line, so it becomes a space.
func (w *response) fields(name string, values []string) {
	if name == "" || !plain.All(name, plain.Token) {
		return
	}
	for _, v := range values {
		if strings.ContainsAny(v, "\r\n") {
			v = strings.NewReplacer("\r", " ", "\n", " ").Replace(v)
		}
		w.text(name)
		w.text(": ")
		w.text(v)
		w.text("\r\n")
	}
}

// announced says whether the lines of Trailer name a header.
func announced(lines []string, name string) bool {
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			if http.CanonicalHeaderKey(strings.TrimSpace(part)) == name {
				return true
			}
		}
	}
	return false
}

// trailers ends a chunked body.
func (w *response) trailers() {
	w.text("0\r\n")
	for name, values := range w.header {
		if late, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			w.fields(late, values)
		} else if len(w.later) > 0 && announced(w.later, name) {
			w.fields(name, values)
		}
	}
	w.text("\r\n")
}

// finish ends the answer and says whether the connection can take another request. fine is false when the handler has
// given the answer up: then nothing more is sent, so that the client sees that it is not whole.
func (w *response) finish(fine bool) bool {
	if !fine {
		w.drop()
		return false
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.headed {
		w.begin(w.late && w.length < 0 && !w.bare)
	}
	if w.chunked {
		w.trailers()
	}
	w.send()
	whole := w.bare || w.chunked || w.length < 0 || w.written == w.length
	if w.err != nil || !whole {
		return false
	}
	rest := w.drain()
	if w.close || !rest {
		if w.body.left > 0 {
			w.linger()
		}
		return false
	}
	return true
}

// drainWait is how long the rest of a body that the handler did not read may take to come.
const drainWait = 5 * time.Second

// drain reads the rest of the request's body away.
func (w *response) drain() bool {
	if w.body.left == 0 {
		return true
	}
	if w.body.err != nil || w.close {
		return false
	}
	_ = w.SetReadDeadline(time.Now().Add(drainWait)) // without it the read fails as well
	_, err := io.Copy(io.Discard, w.body)
	return err == nil
}

// lingerWait is how long a client that is still sending has to take its answer: closing a connection with unread bytes
// resets it, and the answer may be lost by that.
const lingerWait = 500 * time.Millisecond

func (w *response) linger() {
	half, ok := w.conn.net.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = w.conn.net.SetReadDeadline(time.Now().Add(lingerWait))
	_, _ = io.Copy(io.Discard, w.conn.net)
}
