// Package client is the one HTTP client of Berth's peers: berthctl, agents and routers all speak through it. It knows several peers and needs
// one that answers; every write carries a request id, so that a write whose outcome is unknown can be repeated. It knows no roles and keeps no
// state but which peer answered last.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

// DefaultPort is a peer's HTTP port, for addresses that name none.
const DefaultPort = "7300"

// maxAnswer bounds an answer that is decoded in memory, in bytes; snapshots and logs are streamed instead.
const maxAnswer = 256 << 20

// Config says where the peers are.
type Config struct {
	Addrs []string // host, host:port or URL; any peer will do
	// Discover lets the client begin with no address: it answers not_ready until SetAddrs or Follow has told it one.
	Discover bool
	Token    string
	HTTP     *http.Client // nil: one with sane limits and no proxy
	Agent    string       // User-Agent
}

// Client speaks to whichever peer answers. It is safe for concurrent use.
type Client struct {
	token, agent string
	http         *http.Client

	mu     sync.Mutex
	addrs  []string // base URLs
	active int      // index of the one that answered last
	seen   fleet.Index
}

// New returns a client for the peers at cfg.Addrs.
func New(cfg Config) (*Client, error) {
	c := &Client{token: cfg.Token, agent: cfg.Agent, http: cfg.HTTP}
	if c.http == nil {
		c.http = &http.Client{Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
			IdleConnTimeout:     time.Minute,
			MaxIdleConnsPerHost: 4,
		}}
	}
	if len(cfg.Addrs) == 0 && cfg.Discover {
		return c, nil
	}
	if err := c.SetAddrs(cfg.Addrs); err != nil {
		return nil, err
	}
	return c, nil
}

// SetAddrs replaces the known peers. The one that answered last stays in use if it is still among them.
func (c *Client) SetAddrs(addrs []string) error {
	var urls []string
	for _, a := range addrs {
		u, err := baseURL(a)
		if err != nil {
			return err
		}
		urls = append(urls, u)
	}
	if len(urls) == 0 {
		return fleet.Errorf(fleet.BadRequest, "no peer's address is known").WithHint("name one with --addr HOST:%s or BERTH_ADDR", DefaultPort)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	active := 0
	for i, u := range urls {
		if len(c.addrs) > 0 && u == c.addrs[c.active] {
			active = i
		}
	}
	c.addrs, c.active = urls, active
	return nil
}

func baseURL(addr string) (string, error) {
	if !strings.Contains(addr, "://") {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			addr = net.JoinHostPort(strings.Trim(addr, "[]"), DefaultPort)
		}
		addr = "http://" + addr
	}
	u, err := url.Parse(addr)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fleet.Errorf(fleet.BadRequest, "%q is not a peer's address", addr).WithHint("write HOST, HOST:%s or http://HOST:%s", DefaultPort, DefaultPort)
	}
	return u.Scheme + "://" + u.Host, nil
}

// Meta is what every answer says about itself.
type Meta struct {
	Index        fleet.Index
	CommitIndex  string
	KnowledgeAge time.Duration // -1: not said
	KnownLeader  string
	Cluster      string
	Peer         string // base URL of the peer that answered
}

// Call is one request.
type Call struct {
	Method  string // empty: GET
	Path    string // below the API's prefix, already escaped: "models/" + url.PathEscape(name)
	Query   url.Values
	Body    any         // marshalled as JSON; an io.Reader is streamed, to one peer only
	Header  http.Header // further headers
	Stream  bool        // the caller reads the body itself
	Timeout time.Duration
	Once    bool // ask one peer alone
}

// Do sends the call to the peer that answered last, and to the next ones while they cannot be reached or have no leader. It decodes the answer
// into into (nil: ignored). An error that a peer answered is a *fleet.Error.
func (c *Client) Do(ctx context.Context, call Call, into any) (Meta, error) {
	res, meta, err := c.send(ctx, call)
	if err != nil {
		return meta, err
	}
	defer res.Body.Close()
	if into == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
		return meta, err
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(into); err != nil {
		return meta, fmt.Errorf("the answer of %s to %s is not what this version reads: %w", meta.Peer, call.Path, err)
	}
	return meta, nil
}

// Open is Do for an answer that is streamed; the caller closes the body.
func (c *Client) Open(ctx context.Context, call Call) (io.ReadCloser, Meta, error) {
	call.Stream = true
	res, meta, err := c.send(ctx, call)
	if err != nil {
		return nil, meta, err
	}
	return res.Body, meta, nil
}

func (c *Client) send(ctx context.Context, call Call) (*http.Response, Meta, error) {
	newBody, err := bodyOf(call.Body)
	if err != nil {
		return nil, Meta{}, err
	}
	addrs, start, seen := c.order()
	id := NewRequestID(seen)
	var last error = fleet.Errorf(fleet.NotReady, "no peer has been found yet")
	var meta Meta
	for i := range addrs {
		n := (start + i) % len(addrs)
		body, ok := newBody()
		if !ok {
			break
		}
		res, err := c.try(ctx, addrs[n], call, body, id)
		if err == nil {
			meta = metaOf(res, addrs[n])
			c.use(meta)
			return res, meta, nil
		}
		if !errors.Is(last, fleet.OutcomeUnknown) { // what another peer says of itself afterwards does not make it known
			last, meta = err, Meta{Peer: addrs[n]}
		}
		if call.Once || ctx.Err() != nil || !elsewhere(err) {
			break
		}
	}
	return nil, meta, last
}

// elsewhere says whether another peer may answer what this one could not. "Outcome unknown" is among it: the request id makes repeating safe.
func elsewhere(err error) bool {
	var e *fleet.Error
	if !errors.As(err, &e) {
		return true
	}
	return e.Code == fleet.NotReady || e.Code == fleet.NoLeader || e.Code == fleet.OutcomeUnknown
}

func (c *Client) try(ctx context.Context, base string, call Call, body io.Reader, id string) (*http.Response, error) {
	ctx, begun, cancel := call.attempt(ctx)
	res, err := c.roundTrip(ctx, base, call, body, id)
	begun()
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
			err = cause
		}
		cancel()
		return nil, unreachable(base, err)
	}
	if res.StatusCode >= 400 {
		defer cancel()
		defer res.Body.Close()
		return nil, errorOf(res)
	}
	res.Body = &cancelBody{ReadCloser: res.Body, cancel: cancel}
	return res, nil
}

func (c *Client) roundTrip(ctx context.Context, base string, call Call, body io.Reader, id string) (*http.Response, error) {
	method := call.Method
	if method == "" {
		method = http.MethodGet
	}
	target := base + wire.Prefix + "/" + call.Path
	if strings.HasPrefix(call.Path, "/") {
		target = base + call.Path // outside the API: /internal/v1/…, /readyz
	}
	if len(call.Query) > 0 {
		target += "?" + call.Query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	for k, v := range call.Header {
		req.Header[k] = v
	}
	if body != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if method != http.MethodGet && req.Header.Get(wire.HeaderRequestID) == "" {
		req.Header.Set(wire.HeaderRequestID, id)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.agent != "" {
		req.Header.Set("User-Agent", c.agent)
	}
	return c.http.Do(req)
}

func unreachable(base string, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the URL, which may carry what does not belong into a log
	}
	return fmt.Errorf("cannot reach the peer %s: %w", base, err)
}

// errorOf reads the error that a peer answered, or makes one for an answer that is not a peer's.
func errorOf(res *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	var body wire.ErrorBody
	if json.Unmarshal(data, &body) == nil && body.Error.Code != "" {
		return &body.Error
	}
	e := fleet.Errorf(fleet.Internal, "%s answered %s, which is not an answer of Berth", res.Request.URL.Host, res.Status)
	return e.WithHint("is this the HTTP port of a peer (%s by default)?", DefaultPort)
}

// bodyOf returns a maker of request bodies; one that was made from a stream can be used only once, and then gives false. Each try has a reader of
// its own, because a transport may still hold the one of a try that failed.
func bodyOf(v any) (func() (io.Reader, bool), error) {
	if r, ok := v.(io.Reader); ok {
		used := false
		return func() (io.Reader, bool) {
			ok := !used
			used = true
			return r, ok
		}, nil
	}
	if v == nil {
		return func() (io.Reader, bool) { return nil, true }, nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return func() (io.Reader, bool) { return bytes.NewReader(data), true }, nil
}

func (c *Client) order() (addrs []string, start int, seen fleet.Index) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addrs, c.active, c.seen
}

// use notes which peer answered, and the newest index that any has answered.
func (c *Client) use(m Meta) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen.Before(m.Index) {
		c.seen = m.Index
	}
	for i, a := range c.addrs {
		if a == m.Peer {
			c.active = i
		}
	}
}

func metaOf(res *http.Response, peer string) Meta {
	m := Meta{Peer: peer, KnowledgeAge: -1, KnownLeader: res.Header.Get(wire.HeaderKnownLeader),
		Cluster: res.Header.Get(wire.HeaderCluster), CommitIndex: res.Header.Get(wire.HeaderCommitIndex)}
	m.Index, _ = fleet.ParseIndex(res.Header.Get(wire.HeaderIndex))
	if ms, err := strconv.ParseInt(res.Header.Get(wire.HeaderKnowledgeAge), 10, 64); err == nil {
		m.KnowledgeAge = time.Duration(ms) * time.Millisecond
	}
	return m
}

// cancelBody ends the call's context when the body has been read.
type cancelBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *cancelBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel()
	return err
}

// NewRequestID returns a fresh id for a write: 128 random bits, after an index that its maker has seen, if any. From the index the cluster can tell
// a repeat that it no longer remembers from a first attempt.
func NewRequestID(seen fleet.Index) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	token := hex.EncodeToString(b[:])
	if seen.IsZero() {
		return token
	}
	return seen.String() + "-" + token
}
