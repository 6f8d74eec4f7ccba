package gossip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"berth/internal/listen"
)

// Port is the gossip port of a peer, and of a seed that names none.
const Port = 7302

// DefaultLabel sets Berth's gossip apart from that of other programs.
const DefaultLabel = "berth"

// Config says who this member is and how it finds the others.
type Config struct {
	ID       string // made once, kept on disk; no '#'
	Instance uint64 // counts the starts of this id, on disk
	Meta     Meta

	Network   listen.Network // nil: the machine's
	Policy    listen.Policy  // for Bind; gossip with a key counts as sealed
	Bind      string         // host:port for both streams and datagrams; port 0 takes a free one
	Advertise string         // host:port that others reach; empty: Bind, or a private address of the machine if Bind names none

	Seeds []string // host or host:port of members to begin with; a name stands for all its addresses
	Known string   // file of the members last seen, which are tried like seeds; empty: none
	// Keys encrypt and authenticate everything: 16, 24 or 32 bytes each. The first one encrypts, all decrypt. Empty: in the clear.
	Keys  [][]byte
	Label string // of all members that can meet; empty: DefaultLabel

	Log     *slog.Logger                                             // nil: none
	Resolve func(ctx context.Context, host string) ([]string, error) // nil: the machine's resolver
}

func (c Config) withDefaults() Config {
	if c.Network == nil {
		c.Network = listen.System
	}
	if c.Label == "" {
		c.Label = DefaultLabel
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Resolve == nil {
		c.Resolve = net.DefaultResolver.LookupHost
	}
	return c
}

// Validate lists everything that is wrong, in one error.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.ID == "" || len(c.ID) > 64 || strings.ContainsRune(c.ID, '#') {
		bad("the gossip id %q needs 1 to 64 bytes and no '#'", c.ID)
	}
	if _, err := c.Meta.encode(); err != nil {
		errs = append(errs, err)
	}
	if _, _, err := net.SplitHostPort(c.Bind); err != nil {
		bad("the gossip address %q is not host:port: write it like 192.0.2.17:%d", c.Bind, Port)
	}
	if c.Advertise != "" {
		if _, _, err := net.SplitHostPort(c.Advertise); err != nil {
			bad("the advertised gossip address %q is not host:port: write it like 192.0.2.17:%d", c.Advertise, Port)
		}
	}
	for _, seed := range c.Seeds {
		if _, _, err := splitSeed(seed); err != nil {
			errs = append(errs, err)
		}
	}
	for i, key := range c.Keys {
		if n := len(key); n != 16 && n != 24 && n != 32 { // the key itself is never shown
			bad("gossip key %d has %d bytes: 32 are right (16 and 24 also work)", i+1, n)
		}
	}
	if len(c.Label) > 255 {
		bad("the gossip label has %d bytes; at most 255 fit", len(c.Label))
	}
	return errors.Join(errs...)
}
