package router

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"berth/fleet/wire"
	"berth/router/openai"
	"berth/router/pool"
)

// maxErrorBody is how much of an engine's error answer is read to bring it into OpenAI's shape.
const maxErrorBody = 64 << 10

// attempt sends the request to one replica. It returns true when the exchange is over, false when another replica should
// be asked. The lease is released on every path.
func (x *exchange) attempt(lease *pool.Lease) (over bool) {
	verdict := pool.Nothing
	defer func() { lease.Release(verdict) }()
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel() // ends the engine's work on every path that has not read its whole answer
	x.cancel = cancel
	x.waits = context.AfterFunc(lease.Hung(), cancel)
	defer func() { x.waits() }()
	resp, err := x.h.transport.RoundTrip(x.outgoing(ctx, &lease.Endpoint))
	if err != nil {
		verdict, over = x.unreached(lease, err)
		return over
	}
	defer resp.Body.Close()
	if reason := resp.Header.Get(wire.HeaderDoor); reason != "" {
		verdict, over = x.turnedAway(reason)
		return over
	}
	if resp.StatusCode >= 500 {
		verdict = pool.Failed
		if retriable(resp.StatusCode) && x.tryAnother(lease, "status") {
			clear, _ := readError(resp)
			x.last = openai.ParseError(resp.StatusCode, clear)
			x.last.RetryAfter = time.Second
			return false
		}
	} else {
		verdict = pool.Served
	}
	if resp.StatusCode >= 400 {
		lease.Answered()
		x.relayError(resp)
		return true
	}
	switch x.relay(resp, lease) {
	case brokeOff:
		verdict = pool.Failed
	case elsewhere:
		verdict = pool.Failed
		return false
	}
	if x.gone {
		verdict = pool.Nothing
	}
	return true
}

// retriable says whether a status means that this replica cannot, while another one may. A 500 may be the request's own
// doing and would then meet every replica in turn.
func retriable(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// unreached handles a failure before any answer.
func (x *exchange) unreached(lease *pool.Lease, err error) (pool.Verdict, bool) {
	if x.r.Context().Err() != nil {
		x.left(false)
		return pool.Nothing, true
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		x.fail(x.h.intake.tooLarge())
		return pool.Nothing, true
	}
	if x.want.body.unreadable() {
		x.fail(badRequest("the request's body ended early or is not valid", ""))
		return pool.Nothing, true
	}
	verdict, reason := pool.Failed, "broken"
	switch {
	case lease.Hung().Err() != nil:
		reason = "hung"
	case connectFailed(err):
		verdict, reason = pool.Refused, "refused"
	}
	x.h.log.Warn("a replica did not answer", "replica", lease.Endpoint.Replica, "address", lease.Endpoint.Address, "error", err, "request", x.id)
	x.last = &openai.Error{Status: http.StatusBadGateway, Code: "replica_failed", RetryAfter: time.Second,
		Message: "the replica that had this request failed before it answered"}
	if verdict == pool.Refused { // as after a refusal by a door: nothing has been done
		x.last = &openai.Error{Status: http.StatusServiceUnavailable, Code: "model_not_ready", RetryAfter: time.Second,
			Message: "no replica of the model could be reached"}
	}
	if x.tryAnother(lease, reason) {
		return verdict, false
	}
	x.fail(x.last)
	return verdict, true
}

// connectFailed says whether no connection came about, so that the engine cannot have seen the request.
func connectFailed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED)
}

// tryAnother says whether another replica may be asked: nothing has gone to the client, the body can be sent again, and
// the budget allows it.
func (x *exchange) tryAnother(lease *pool.Lease, reason string) bool {
	if x.status != 0 && !x.committed || !x.want.body.again() || !x.h.budget.withdraw() {
		return false
	}
	x.hint.Avoid = append(x.hint.Avoid, lease.Endpoint.Replica)
	x.retry = reason
	return true
}

// turnedAway handles the refusal of a door: nothing was done, so it costs no budget, and no client sees it.
func (x *exchange) turnedAway(reason string) (pool.Verdict, bool) {
	verdict := pool.Shut
	switch reason {
	case wire.DoorWrongKey:
		verdict = pool.WrongKey
	case wire.DoorRoute:
		x.h.metrics.refusals.WithLabelValues(reason).Inc()
		x.fail(&openai.Error{Status: http.StatusNotFound, Code: "not_found", Message: "the replica's door does not pass " + x.route.path})
		return pool.Nothing, true
	case wire.DoorShut, wire.DoorStarting:
	default:
		reason = "other"
	}
	x.h.metrics.refusals.WithLabelValues(reason).Inc()
	if !x.want.body.again() {
		x.fail(&openai.Error{Status: http.StatusServiceUnavailable, Code: "model_not_ready", RetryAfter: time.Second,
			Message: "the replica stopped taking requests while the body was on its way, and the body is too large to be sent again"})
		return verdict, true
	}
	return verdict, false
}

// readError reads the begin of an error answer: as it came, and in the clear.
func readError(resp *http.Response) (clear, raw []byte) {
	raw, _ = io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what was cut off is no JSON and told as text
	if resp.Header.Get("Content-Encoding") != "gzip" {
		return raw, raw
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, raw
	}
	clear, _ = io.ReadAll(io.LimitReader(z, maxErrorBody))
	return clear, raw
}

// relayError passes an engine's error on, in OpenAI's shape.
func (x *exchange) relayError(resp *http.Response) {
	clear, raw := readError(resp)
	if x.status != 0 {
		x.fail(openai.ParseError(resp.StatusCode, clear))
		return
	}
	h := x.w.Header()
	toClient(h, resp.Header)
	if nested := openai.Nest(resp.StatusCode, x.route.dialect, clear); nested != nil {
		h.Del("Content-Encoding")
		h.Set("Content-Type", "application/json")
		raw = nested
	}
	if retriable(resp.StatusCode) && h.Get("Retry-After") == "" {
		openai.SetRetryAfter(h, time.Second)
	}
	h.Set("Content-Length", strconv.Itoa(len(raw)))
	x.writeHeader(resp.StatusCode)
	_, _ = x.w.Write(raw) // the client may be gone
}
