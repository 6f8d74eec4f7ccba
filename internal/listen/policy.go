package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// InsecureFlag is the command-line flag that sets [Policy.InsecureNoTLS]; errors and warnings name it.
const InsecureFlag = "--insecure-no-tls"

// warnEvery is how often a process that listens in the clear says so again: often enough to be in any log that an
// operator reads, seldom enough not to fill it.
const warnEvery = time.Hour

// ErrExposed is wrapped by the error for an address that would be reachable from other machines without TLS.
var ErrExposed = errors.New("reachable from other machines without TLS")

// Policy decides which addresses may be listened on, and wraps what is opened in TLS when it has a configuration.
// The zero Policy allows loopback only.
type Policy struct {
	// InsecureNoTLS allows addresses beyond loopback without TLS.
	InsecureNoTLS bool
	// TLS, when set, wraps every stream listener that is not Sealed, and so lifts the check.
	TLS *tls.Config
}

// Spec is one socket to open.
type Spec struct {
	// Addr is "host:port". An empty host means all addresses of the machine.
	Addr string
	// Flag is the command-line flag that changes Addr, for the text of errors: "--bind".
	Flag string
	// Sealed says that the protocol on this socket encrypts by itself, as gossip with a key does. It is then neither
	// checked nor wrapped in TLS.
	Sealed bool
	// Shared lets another process listen on the address too, and take over by [Lead].
	Shared bool
}

// Check refuses an address that other machines can reach while the policy has neither TLS nor the operator's leave to
// do without. A host name other than localhost counts as reachable, because what it resolves to may change. The error
// wraps [ErrExposed].
func (p Policy) Check(addr string) error {
	exposed, err := Exposed(addr)
	switch {
	case err != nil:
		return err
	case !exposed || p.TLS != nil || p.InsecureNoTLS:
		return nil
	}
	return fmt.Errorf("address %q is %w: bind a loopback address such as 127.0.0.1, or accept it with %s",
		addr, ErrExposed, InsecureFlag)
}

// Listen checks the address, opens it on the network, and wraps it in TLS if the policy has it. A port in use is one
// error that names the address and the flag and wraps [syscall.EADDRINUSE].
func (p Policy) Listen(ctx context.Context, network Network, s Spec) (net.Listener, error) {
	if err := p.admit(s); err != nil {
		return nil, err
	}
	ln, err := open(ctx, network, s)
	if err != nil {
		return nil, openError(s, err)
	}
	if p.TLS != nil && !s.Sealed {
		ln = secure(ln, p.TLS)
	}
	return ln, nil
}

// ListenPacket is Listen for datagrams. TLS does not protect datagrams, so only a Sealed socket or InsecureNoTLS lifts
// the check.
func (p Policy) ListenPacket(ctx context.Context, network Network, s Spec) (net.PacketConn, error) {
	clear := Policy{InsecureNoTLS: p.InsecureNoTLS}
	if err := clear.admit(s); err != nil {
		return nil, err
	}
	pc, err := network.ListenPacket(ctx, s.Addr)
	if err != nil {
		return nil, openError(s, err)
	}
	return pc, nil
}

func (p Policy) admit(s Spec) error {
	if s.Sealed {
		_, err := Exposed(s.Addr)
		return err
	}
	if err := p.Check(s.Addr); err != nil {
		return fmt.Errorf("%s: %w", flagName(s), err)
	}
	return nil
}

// Warn logs at once, and then every hour until the context ends, that the given addresses are served in the clear. It
// says nothing when the policy has TLS or every address is loopback; it then only waits. It returns nil.
func (p Policy) Warn(ctx context.Context, log *slog.Logger, addrs ...string) error {
	var open []string
	for _, addr := range addrs {
		if exposed, err := Exposed(addr); err == nil && exposed && p.TLS == nil {
			open = append(open, addr)
		}
	}
	if len(open) == 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(warnEvery)
	defer tick.Stop()
	for {
		log.Warn("listening without TLS beyond this machine: anyone on the network can read and send requests",
			"addresses", strings.Join(open, " "), "allowed_by", InsecureFlag)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Exposed reports whether other machines can reach the address. It fails on what is not "host:port".
func Exposed(addr string) (bool, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false, fmt.Errorf("address %q is not host:port: %w", addr, err)
	}
	if host == "localhost" {
		return false, nil
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.Unmap().IsLoopback(), nil
}

func openError(s Spec, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("listen on %s: another process has this address; stop it or choose another with %s: %w",
			s.Addr, flagName(s), syscall.EADDRINUSE)
	}
	return fmt.Errorf("listen on %s (%s): %w", s.Addr, flagName(s), err)
}

func flagName(s Spec) string {
	if s.Flag == "" {
		return "--bind"
	}
	return s.Flag
}
