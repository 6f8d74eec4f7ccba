package router

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/listen"
	"berth/router/access"
)

// Source is where the routing table comes from: any peer.
type Source interface {
	// Table returns the newest table. With after zero it answers at once; otherwise when there is one newer than after,
	// or when wait has passed, with the one there is. It must end with ctx.
	Table(ctx context.Context, after fleet.Index, wait time.Duration) (wire.Table, error)
}

// Sink is where the router says what was used: any peer.
type Sink interface {
	Report(ctx context.Context, r wire.Report) (wire.ReportAnswer, error)
}

// Config is all that a router must be told. Zero values take the defaults named here.
type Config struct {
	Name    string // of this router, unique in the cluster
	DataDir string // made if it is missing
	Bind    string // for clients; default 127.0.0.1:7380
	Ops     string // for operators; default 127.0.0.1:7381
	// Share opens Bind and Ops so that the next process of this router can take over without a failed request. It needs
	// Linux, and gives DataDir up before the end of Run.
	Share bool
	// Advertise and AdvertiseOps are the addresses that the report gives for others to use; default: what was bound.
	Advertise, AdvertiseOps string

	Network listen.Network // default: the machine's
	Policy  listen.Policy  // which addresses may be bound without TLS
	Source  Source
	Sink    Sink
	Logger  *slog.Logger // default: none
	// Clock tells the time since an arbitrary, fixed moment and goes on while the machine is suspended. It is read once a
	// tick. Default: the kernel's boot-time clock.
	Clock func() time.Duration

	// Keys says who may send requests, and how many; nil: everybody, any number. KeysFile, if it is named, is where they
	// were read from: it is followed when it changes.
	Keys     *access.File
	KeysFile string
	// TLS is for the clients' port alone; nil: the policy's.
	TLS *tls.Config

	Tick    time.Duration // between reports; default 1 s
	Look    time.Duration // between questions to engines how many requests wait in them; default EngineLook
	Wait    time.Duration // of a blocking query for the table; default 30 s
	Drain   time.Duration // what requests in flight may have after the end of the context; default 30 s
	MaxBody int64         // bytes of a request; default 64 MiB
	// KeepBody is how many bytes of a request are kept to send it again; default 1 MiB. A larger one is sent with
	// Expect: 100-continue, so that a door can refuse it before it is spent.
	KeepBody int64
	// BodyMemory bounds what all request bodies beyond KeepBody may hold in memory together; default 1 GiB.
	BodyMemory int64
	// Hung is how long a replica that has begun streams may move no token before it is set aside; default 30 s. One that
	// has begun none has four times as long.
	Hung time.Duration
	// BodyIdle is how long a client may pause while it sends a body; default 30 s.
	BodyIdle time.Duration
	// KeepAliveAfter and KeepAliveEvery say when a client that waits for a stream is sent a comment, which commits its
	// answer to status 200; defaults 5 s and 15 s.
	KeepAliveAfter, KeepAliveEvery time.Duration
	// ForwardAuthorization passes the client's credentials on to engines. They are for this router, so the default is not to.
	ForwardAuthorization bool
}

func (c Config) withDefaults() Config {
	text := func(p *string, v string) {
		if *p == "" {
			*p = v
		}
	}
	span := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	size := func(p *int64, v int64) {
		if *p == 0 {
			*p = v
		}
	}
	text(&c.Bind, "127.0.0.1:7380")
	text(&c.Ops, "127.0.0.1:7381")
	span(&c.Tick, time.Second)
	span(&c.Look, EngineLook)
	span(&c.Wait, 30*time.Second)
	span(&c.Drain, 30*time.Second)
	span(&c.Hung, 30*time.Second)
	span(&c.BodyIdle, 30*time.Second)
	span(&c.KeepAliveAfter, 5*time.Second)
	span(&c.KeepAliveEvery, 15*time.Second)
	size(&c.MaxBody, 64<<20)
	size(&c.KeepBody, 1<<20)
	size(&c.BodyMemory, 1<<30)
	if c.Network == nil {
		c.Network = listen.System
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = bootTime
	}
	return c
}

// clients is the policy of the clients' port.
func (c Config) clients() listen.Policy {
	p := c.Policy
	if c.TLS != nil {
		p.TLS = c.TLS
	}
	return p
}

// Validate lists everything that is wrong, defaults filled in.
func (c Config) Validate() error {
	c = c.withDefaults()
	var bad []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	if err := fleet.CheckName("router", c.Name); err != nil {
		bad = append(bad, err)
	}
	require(c.DataDir != "", "the data directory is not named (--data-dir)")
	require(c.Source != nil && c.Sink != nil, "there is no peer to ask (--join or --peer)")
	require(c.Bind != c.Ops || strings.HasSuffix(c.Bind, ":0"), "clients and operators share the address %s; give --bind and --ops-bind different ones", c.Bind)
	for _, err := range []error{c.clients().Check(c.Bind), c.Policy.Check(c.Ops)} {
		if err != nil {
			bad = append(bad, err)
		}
	}
	if c.Keys != nil {
		if err := c.Keys.Validate(); err != nil {
			bad = append(bad, fmt.Errorf("API keys: %w", err))
		}
	}
	require(c.KeysFile == "" || c.Keys != nil, "the file of API keys %s is to be followed, and no keys are given to begin with", c.KeysFile)
	for name, d := range map[string]time.Duration{"tick": c.Tick, "time between questions to engines": c.Look, "wait": c.Wait, "drain": c.Drain, "body idle time": c.BodyIdle, "time for tokens to move": c.Hung,
		"keep-alive delay": c.KeepAliveAfter, "keep-alive interval": c.KeepAliveEvery} {
		require(d > 0, "the %s is %s; it must be more than 0s", name, d)
	}
	require(c.MaxBody > 0 && c.KeepBody > 0 && c.KeepBody <= c.MaxBody, "request bodies: %d bytes are kept of at most %d; both must be more than 0, and the first not more than the second", c.KeepBody, c.MaxBody)
	require(c.BodyMemory >= c.MaxBody, "request bodies: %d bytes of memory for all are less than the %d that one may have", c.BodyMemory, c.MaxBody)
	return errors.Join(bad...)
}
