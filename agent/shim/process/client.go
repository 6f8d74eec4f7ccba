package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
)

// handle is the agent's hold on a shim's process. It keeps no connection open between calls. The agent tells one handle
// from another by ==, so it goes by its address.
type handle struct {
	folder folder
	launch shim.Launch
}

var _ shim.Handle = (*handle)(nil)

// Launch implements [shim.Handle].
func (h *handle) Launch() shim.Launch { return h.launch }

// Status implements [shim.Handle].
func (h *handle) Status(ctx context.Context, after uint64) (st shim.Status, err error) {
	for { // the shim answers after half a minute at the latest, changed or not
		path := "/status?after=" + strconv.FormatUint(after, 10)
		if err = h.call(ctx, http.MethodGet, path, nil, &st); err == nil && st.Version <= after && ctx.Err() == nil {
			continue
		}
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) { // the wait is over; the status as it is
			short, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
			defer cancel()
			err = h.call(short, http.MethodGet, "/status?after=0", nil, &st)
		}
		return st, err
	}
}

// answerWithin bounds a call whose context has ended already.
const answerWithin = 500 * time.Millisecond

// Order implements [shim.Handle].
func (h *handle) Order(ctx context.Context, o shim.Order) error {
	return h.call(ctx, http.MethodPost, "/order", o, &struct{}{})
}

// Reading implements [shim.Handle].
func (h *handle) Reading(ctx context.Context) (r wire.Reading, err error) {
	err = h.call(ctx, http.MethodPost, "/reading", nil, &r)
	return r, err
}

// Logs implements [shim.Handle].
func (h *handle) Logs(ctx context.Context, tail int, follow bool) (io.ReadCloser, error) {
	res, err := h.do(ctx, http.MethodGet, fmt.Sprintf("/logs?tail=%d&follow=%t", tail, follow), nil)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// Kill implements [shim.Handle]. A shim that does not answer is killed itself, and then what it leaves.
func (h *handle) Kill(ctx context.Context) error {
	err := h.callLast(ctx, "/kill")
	if err == nil || errors.Is(err, shim.ErrGone) {
		return nil
	}
	s, serr := h.folder.state()
	if serr != nil || !s.Shim.alive() {
		return errors.Join(err, serr)
	}
	proc{pid: s.Shim.PID, start: s.Shim.Start}.signal(syscall.SIGKILL)
	t, terr := h.folder.tree()
	if terr != nil {
		return terr
	}
	left, cancel := context.WithTimeout(context.WithoutCancel(ctx), killPatience)
	defer cancel()
	return errors.Join(h.awaitGone(left), t.kill(left))
}

// awaitGone returns when the shim's process has ended.
func (h *handle) awaitGone(ctx context.Context) error {
	lock, err := os.Open(h.folder.file(lockFile))
	if err != nil {
		return err
	}
	defer lock.Close()
	return gone(ctx, lock)
}

// Close implements [shim.Handle].
func (h *handle) Close(ctx context.Context) error { return h.callLast(ctx, "/close") }

// callLast makes a call that ends the shim, and returns when its process has ended.
func (h *handle) callLast(ctx context.Context, path string) error {
	lock, err := os.Open(h.folder.file(lockFile))
	if err != nil {
		return h.failed(err)
	}
	defer lock.Close()
	if err := h.call(ctx, http.MethodPost, path, nil, &struct{}{}); err != nil {
		return err
	}
	return gone(ctx, lock)
}

// call sends a request and reads the answer into out.
func (h *handle) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	res, err := h.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return h.failed(err)
	}
	return nil
}

func (h *handle) do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://shim"+prefix+path, body)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{DialContext: h.dial, DisableKeepAlives: true, DisableCompression: true}
	res, err := t.RoundTrip(r)
	if err != nil {
		return nil, h.failed(err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	var f failure
	if err := json.NewDecoder(res.Body).Decode(&f); err != nil || f.Error == nil {
		return nil, fmt.Errorf("shim %d of %s: status %d to %s", h.launch.Shim, h.launch.Order.Replica, res.StatusCode, path)
	}
	return nil, f.Error
}

// failed tells a shim that is gone from one that does not answer.
func (h *handle) failed(err error) error {
	if h.folder.dead() {
		return fmt.Errorf("shim %d of %s: %w", h.launch.Shim, h.launch.Order.Replica, shim.ErrGone)
	}
	return fmt.Errorf("shim %d of %s: %w", h.launch.Shim, h.launch.Order.Replica, err)
}

// dial reaches the socket through an open folder, since its path may be longer than the 107 bytes of a socket's.
func (h *handle) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	dir, err := os.Open(string(h.folder))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var d net.Dialer
	return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socketFile))
}

// greet asks a shim who it is; an answer of another protocol is an error that says so.
func (h *handle) greet(ctx context.Context) error {
	var got hello
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://shim/hello", nil)
	if err != nil {
		return err
	}
	t := &http.Transport{DialContext: h.dial, DisableKeepAlives: true}
	res, err := t.RoundTrip(r)
	if err != nil {
		return h.failed(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
		return h.failed(err)
	}
	if got.Protocol != protocol {
		return fleet.Errorf(fleet.LevelTooOld, "shim %d speaks protocol %d, this agent %d", got.Shim, got.Protocol, protocol)
	}
	if got.Shim != h.launch.Shim || got.Replica != h.launch.Order.Replica {
		return fleet.Errorf(fleet.Conflict, "the folder of shim %d of %s is held by shim %d of %s", h.launch.Shim, h.launch.Order.Replica, got.Shim, got.Replica)
	}
	return nil
}
