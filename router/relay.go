package router

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"berth/router/openai"
)

// Sizes of the buffers that answers pass through. A stream's events are small and a stream holds its buffer for minutes;
// a large answer of known length passes in fewer steps with a larger one.
const (
	streamBuffer = 4 << 10
	bulkBuffer   = 32 << 10
)

// buffers keeps the buffers of answers for the next ones.
type buffers struct{ stream, bulk sync.Pool }

func (b *buffers) take(bulk bool) (*[]byte, func()) {
	from, size := &b.stream, streamBuffer
	if bulk {
		from, size = &b.bulk, bulkBuffer
	}
	buf, ok := from.Get().(*[]byte)
	if !ok {
		made := make([]byte, size)
		buf = &made
	}
	return buf, func() { from.Put(buf) }
}

// streamHeaders tells proxies in between to let a stream through as it comes.
func streamHeaders(h http.Header) {
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-cache")
	}
	h.Set("X-Accel-Buffering", "no")
}

// relay passes a good answer on as it comes: the headers when the engine sends its own, then each write of the engine at
// once. It returns false if the engine broke off.
func (x *exchange) relay(resp *http.Response) bool {
	events, lines := streamKind(resp.Header.Get("Content-Type"))
	if x.committed && (!events || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Encoding") != "") {
		x.fail(&openai.Error{Status: http.StatusBadGateway, Code: "replica_failed", Message: "the replica did not answer with the stream that was asked for"})
		return true
	}
	announced := len(resp.Trailer)
	if !x.committed {
		x.begin(resp, events || lines)
	}
	err := x.copy(resp)
	if err == nil {
		x.trailers(resp, announced)
		return true
	}
	x.broken = true
	if x.gone {
		return true
	}
	x.h.log.Warn("a replica broke off its answer", "error", err, "request", x.id)
	if events && resp.Header.Get("Content-Encoding") == "" {
		_, _ = x.w.Write([]byte("\n\n")) // ends whatever event was under way
		x.fail(&openai.Error{Status: http.StatusBadGateway, Code: "replica_failed", Message: "the replica broke off its answer"})
	}
	return false
}

// begin sends the status and the headers.
func (x *exchange) begin(resp *http.Response, stream bool) {
	h := x.w.Header()
	toClient(h, resp.Header)
	if stream {
		streamHeaders(h)
	}
	if len(resp.Trailer) > 0 {
		names := make([]string, 0, len(resp.Trailer))
		for name := range resp.Trailer {
			names = append(names, name)
		}
		slices.Sort(names)
		h.Set("Trailer", strings.Join(names, ", "))
	}
	x.writeHeader(resp.StatusCode)
	if resp.ContentLength < 0 || resp.ContentLength > bulkBuffer {
		x.flush() // a short answer of known length comes with its headers
	}
	x.h.metrics.firstByte(x.start)
}

// copy passes the body on. Every write is flushed, except the last of a known length, which the end of the handler sends.
func (x *exchange) copy(resp *http.Response) error {
	buf, done := x.h.buffers.take(resp.ContentLength > streamBuffer)
	defer done()
	for left := resp.ContentLength; ; {
		n, err := resp.Body.Read(*buf)
		if n > 0 {
			if _, werr := x.w.Write((*buf)[:n]); werr != nil {
				x.gone = true
				return werr
			}
			if left -= int64(n); left != 0 {
				x.flush()
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			x.gone = x.gone || x.r.Context().Err() != nil
			return err
		}
	}
}

// trailers passes on what followed the body, announced or not.
func (x *exchange) trailers(resp *http.Response, announced int) {
	prefix := ""
	if len(resp.Trailer) != announced || x.committed {
		prefix = http.TrailerPrefix
	}
	h := x.w.Header()
	for name, values := range resp.Trailer {
		h[prefix+name] = values
	}
}
