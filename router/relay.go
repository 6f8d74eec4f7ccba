package router

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/internal/listen"
	"berth/router/openai"
	"berth/router/pool"
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

// ending is how an engine's answer ended.
type ending int

const (
	whole     ending = iota // or not the engine's fault
	brokeOff                // and the client has been told
	elsewhere               // broke off before anything of it reached the client, and another replica is to be asked
)

// relay passes a good answer on as it comes: the headers when the engine sends its own, then each write of the engine at
// once.
func (x *exchange) relay(resp *http.Response, lease *pool.Lease) ending {
	events, lines := streamKind(resp.Header.Get("Content-Type"))
	clear := resp.Header.Get("Content-Encoding") == ""
	if x.committed && (!events || resp.StatusCode != http.StatusOK || !clear) {
		x.fail(&openai.Error{Status: http.StatusBadGateway, Code: "replica_failed", Message: "the replica did not answer with the stream that was asked for"})
		return whole
	}
	if !events {
		lease.Answered() // an event stream's headers are no token yet
	}
	announced := len(resp.Trailer)
	if !x.committed {
		x.begin(resp, events || lines)
	}
	resp.Header = nil // the client has it
	passed, err := x.copy(resp, lease)
	if err == nil {
		x.trailers(resp, announced)
		return whole
	}
	if x.gone || x.r.Context().Err() != nil {
		x.left(events && clear)
		return whole
	}
	x.h.log.Warn("a replica broke off its answer", "replica", lease.Endpoint.Replica, "error", err, "request", x.id)
	failed := &openai.Error{Status: http.StatusBadGateway, Code: "replica_failed", Message: "the replica broke off its answer"}
	if events && clear && !passed && resp.StatusCode == http.StatusOK {
		// All that the client has are the headers of an event stream, and those of another replica would be the same.
		x.committed, x.last = true, failed
		if x.tryAnother(lease, "broken") {
			return elsewhere
		}
	}
	x.breakOff(events && clear, failed)
	return brokeOff
}

// breakOff ends an answer that has begun: with an error event if it is a stream of events, and abnormally in any case.
func (x *exchange) breakOff(events bool, e *openai.Error) {
	x.broken = true
	if events {
		_, _ = x.w.Write([]byte("\n\n")) // ends whatever event was under way
		x.fail(e)
	}
}

// left handles the end of the request's context: the client went away, or this router does and cuts the request, which
// its client is told.
func (x *exchange) left(events bool) {
	if context.Cause(x.r.Context()) != listen.ErrCut {
		x.gone, x.broken = true, x.status != 0
		return
	}
	cut := &openai.Error{Status: http.StatusServiceUnavailable, Code: "router_stopping", RetryAfter: time.Second,
		Message: "this router stops, and the request was not done in the time that it had left"}
	if x.status != 0 {
		x.breakOff(events || x.committed, cut)
		return
	}
	x.fail(cut)
	x.flush()
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

// source gives a body piece by piece; each is good until the next is asked for. io.EOF is the end.
type source interface{ Next() ([]byte, error) }

// read is a source of what gives its bytes by Read only.
type read struct {
	from io.Reader
	buf  []byte
	err  error // that came with the last bytes
}

func (r *read) Next() ([]byte, error) {
	for n := 0; r.err == nil; {
		if n, r.err = r.from.Read(r.buf); n > 0 {
			return r.buf[:n], nil
		}
	}
	return nil, r.err
}

// copy passes the body on and says whether anything of it came. Every write is flushed, except the last of a known
// length, which the end of the handler sends.
func (x *exchange) copy(resp *http.Response, lease *pool.Lease) (passed bool, err error) {
	from, ok := resp.Body.(source)
	if !ok {
		buf, done := x.h.buffers.take(resp.ContentLength > streamBuffer)
		defer done()
		from = &read{from: resp.Body, buf: *buf}
	}
	for left := resp.ContentLength; ; {
		p, err := from.Next()
		if err == io.EOF {
			return passed, nil
		}
		if err != nil {
			return passed, err
		}
		if !passed {
			passed = true
			x.waits()
			if x.want.stream {
				x.waits = context.AfterFunc(lease.Dead(), x.cancel)
			}
			lease.Answered()
			x.forget()
		}
		lease.Moved()
		if _, werr := x.w.Write(p); werr != nil {
			x.gone = true
			return true, werr
		}
		if left -= int64(len(p)); left != 0 {
			x.flush()
		}
	}
}

// forget drops what only another attempt could need: an answer that has begun is never asked for again, and may last for
// longer than its prompt should be held.
func (x *exchange) forget() {
	x.hint.Prompt = pool.Prompt{}
	x.want.body.forget()
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
