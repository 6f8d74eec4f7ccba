package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
	"berth/internal/listen"
)

// Waits of a blocking read.
const (
	defaultWait = 30 * time.Second
	maxWait     = 10 * time.Minute
)

// request is a matched request with what handlers ask of it.
type request struct {
	*http.Request
	server *Server
	route  route
	vars   map[string]string
	index  *fleet.Index // set by a handler that answers from a particular state
}

// unescape decodes each path variable once.
func (q *request) unescape() error {
	for k, v := range q.vars {
		text, err := url.PathUnescape(v)
		if err != nil || strings.ContainsRune(text, 0) {
			return fleet.Errorf(fleet.BadRequest, "the path's %s %q is not properly escaped", k, v)
		}
		q.vars[k] = text
	}
	if name, ok := q.vars["model"]; ok {
		if err := fleet.CheckModelName(name); err != nil {
			return fleet.Errorf(fleet.BadRequest, "%s", fleet.AsError(err).Message)
		}
	}
	return nil
}

// body decodes the request's JSON strictly: what this version does not know it must not drop.
func (q *request) body(into any) error {
	data, err := io.ReadAll(q.Body)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err = dec.Decode(into)
	if err == nil && dec.More() {
		return fleet.Errorf(fleet.BadRequest, "the body has more after its JSON value")
	}
	return bodyError(err)
}

func bodyError(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return fleet.Errorf(fleet.BadRequest, "the body is empty; this route wants JSON")
	case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF):
		return fleet.Errorf(fleet.BadRequest, "the body is not JSON: %s", err)
	case errors.As(err, &kind):
		return fleet.Errorf(fleet.BadRequest, "%s is %s; it must be of type %s", kind.Field, kind.Value, kind.Type)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fleet.Errorf(fleet.UnknownField, "unknown field %s", name)
	}
	return fleet.Errorf(fleet.BadRequest, "the body: %s", err)
}

// lenient decodes what a process of a neighbouring release sends: fields that this one does not know are ignored.
func (q *request) lenient(into any) error {
	data, err := io.ReadAll(q.Body)
	if err != nil {
		return err
	}
	return bodyError(json.Unmarshal(data, into))
}

// quick is lenient for the messages that come by the thousand.
func quick[T any](q *request, read func([]byte) (T, error)) (T, error) {
	data, err := io.ReadAll(q.Body)
	if err != nil {
		var none T
		return none, err
	}
	v, err := read(data)
	return v, bodyError(err)
}

// meta stamps a command with who asked, when, and under which request id.
func (q *request) meta() fsm.Meta {
	return fsm.Meta{Request: q.Header.Get(wire.HeaderRequestID), At: fleet.TimeOf(time.Now()), By: q.caller()}
}

// caller names who asked. A forwarded request carries the caller of the peer that it reached first.
func (q *request) caller() string {
	if q.route.access == asAgent {
		return "agent " + q.vars["node"]
	}
	if by := q.Header.Get(headerCaller); by != "" && q.Header.Get(wire.HeaderForwarded) != "" {
		return by
	}
	if agent := q.UserAgent(); agent != "" && !strings.HasPrefix(agent, "Go-http-client") {
		return person(agent)
	}
	return "api"
}

// person reads who says to be asking from the user agent, "berthctl/1.2 (ann@ops-1)": nobody has proved it.
func person(agent string) string {
	program, rest, _ := strings.Cut(agent, " ")
	if who, ok := strings.CutPrefix(rest, "("); ok && strings.HasPrefix(program, "berthctl/") {
		return strings.TrimSuffix(who, ")")
	}
	return program
}

// headerCaller carries the caller's identity with a forwarded request.
const headerCaller = "X-Berth-Caller"

// propose commits a command on behalf of the request.
func (q *request) propose(cmd fsm.Command) (fsm.Outcome, error) {
	out, err := q.server.Core.Propose(q.Context(), q.meta(), cmd)
	if err != nil {
		return out, err
	}
	if out.Err != nil {
		return out, out.Err
	}
	return out, nil
}

// ifMatch reads the If-Match header: the index of the version that the caller has seen.
func (q *request) ifMatch() (*fleet.Index, error) {
	text := strings.Trim(q.Header.Get("If-Match"), `"`)
	if text == "" {
		return nil, nil
	}
	i, err := fleet.ParseIndex(text)
	if err != nil {
		return nil, fleet.Errorf(fleet.BadRequest, "If-Match: %s", err)
	}
	return &i, nil
}

// waiting reads ?index and ?wait; wait is 0 for a read that does not block.
func (q *request) waiting() (after fleet.Index, wait time.Duration, err error) {
	v := q.URL.Query()
	if !v.Has("index") && !v.Has("wait") {
		return after, 0, nil
	}
	if text := v.Get("index"); text != "" {
		if after, err = fleet.ParseIndex(text); err != nil {
			return after, 0, fleet.Errorf(fleet.BadRequest, "index: %s", err)
		}
	}
	wait = defaultWait
	if v.Has("wait") {
		var d fleet.Duration
		if err := d.UnmarshalText([]byte(v.Get("wait"))); err != nil {
			return after, 0, fleet.Errorf(fleet.BadRequest, "wait: %s", err).WithHint("write it like 30s; at most %s", fleet.Duration(maxWait))
		}
		wait = min(d.Std(), maxWait)
	}
	return after, wait, nil
}

// feed says when what a route answers last changed in a state, and gives a channel that is closed when it changes again.
type feed func(*fsm.State) (fleet.Index, <-chan struct{})

// anyOf is the feed of a list: every applied entry counts as a change of it, and only a change of those tables wakes who waits.
func anyOf(topics ...fsm.Topic) feed {
	return func(s *fsm.State) (fleet.Index, <-chan struct{}) { return s.Index(), s.Watch(topics...) }
}

// block waits until the feed has changed since the index that the caller has, or the wait is over, and returns the state to answer from. A peer
// that is behind the caller's index waits for it, and then says so: it never answers with older data.
func (q *request) block(f feed) (*fsm.State, error) {
	after, wait, err := q.waiting()
	if err != nil {
		return nil, err
	}
	if wait == 0 {
		return q.from(q.server.Core.State()), nil
	}
	timer := time.NewTimer(wait + rand.N(wait/16+1)) // the jitter keeps a fleet's questions from coming back together
	defer timer.Stop()
	for {
		state := q.server.Core.State()
		at, changed := f(state)
		if state.Index().Epoch != after.Epoch || after.Before(at) {
			return q.from(state), nil
		}
		if state.Index().Before(after) {
			changed = state.Watch()
		}
		select {
		case <-changed:
		case <-timer.C:
			if state = q.server.Core.State(); state.Index().Before(after) {
				return nil, fleet.Errorf(fleet.NotReady, "behind: this peer has applied %s and is asked for %s", state.Index(), after).WithHint("ask another peer")
			}
			return q.from(state), nil
		case <-q.Context().Done():
			return nil, q.Context().Err()
		case <-listen.Stopping(q.Context()):
			return nil, fleet.Errorf(fleet.NotReady, "this peer is stopping").WithHint("ask another peer")
		}
	}
}

// from notes the state that the answer is made of.
func (q *request) from(s *fsm.State) *fsm.State {
	i := s.Index()
	q.index = &i
	return s
}

// page cuts one page out of rows by ?limit and ?next, the key of the first row wanted; rows are in order of key.
func page[T any](q *request, rows []T, key func(T) string) (wire.List[T], error) {
	limit := 1000
	if text := q.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return wire.List[T]{}, fleet.Errorf(fleet.BadRequest, "limit is %q; write a whole number of at least 1", text)
		}
		limit = min(n, 10_000)
	}
	next := q.URL.Query().Get("next")
	from := 0
	for next != "" && from < len(rows) && key(rows[from]) < next {
		from++
	}
	rows = rows[from:]
	out := wire.List[T]{Items: rows}
	if len(rows) > limit {
		out.Items, out.Next = rows[:limit], key(rows[limit])
	}
	if out.Items == nil {
		out.Items = []T{}
	}
	return out, nil
}
