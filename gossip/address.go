package gossip

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// advertised is the address that others are told: an IP address, which is all that memberlist can carry.
func advertised(ctx context.Context, cfg Config, bound net.Addr) (net.IP, int, error) {
	addr := bound.String()
	if cfg.Advertise != "" {
		addr = cfg.Advertise
	}
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, 0, fmt.Errorf("gossip: address %q: %w", addr, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, 0, fmt.Errorf("gossip: port of %q: %w", addr, err)
	}
	ips, err := lookup(ctx, cfg, host)
	if err != nil {
		return nil, 0, fmt.Errorf("gossip: advertised address %q: %w", addr, err)
	}
	ip := net.IP(ips[0].AsSlice())
	if ip.IsUnspecified() {
		if ip = ownAddress(); ip == nil {
			return nil, 0, fmt.Errorf("gossip: %s names no address of this machine, and it has none that others could reach: set --advertise", addr)
		}
	}
	return ip, int(port), nil
}

// lookup gives the addresses of a host, itself if it is one.
func lookup(ctx context.Context, cfg Config, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip.Unmap()}, nil
	}
	found, err := cfg.Resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	var ips []netip.Addr
	for _, text := range found {
		if ip, err := netip.ParseAddr(text); err == nil {
			ips = append(ips, ip.Unmap())
		}
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("the name %q has no address", host)
	}
	return ips, nil
}

// ownAddress is the machine's first address that other machines can reach, IPv4 and private ones first.
func ownAddress() net.IP {
	addrs, _ := net.InterfaceAddrs()
	var ips []net.IP
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			ips = append(ips, n.IP)
		}
	}
	rank := func(ip net.IP) (r int) {
		if ip.To4() == nil {
			r += 2
		}
		if !ip.IsPrivate() {
			r++
		}
		return r
	}
	slices.SortStableFunc(ips, func(a, b net.IP) int { return rank(a) - rank(b) })
	if len(ips) == 0 {
		return nil
	}
	return ips[0]
}

// splitSeed reads host or host:port.
func splitSeed(seed string) (host, port string, err error) {
	if host, port, err = net.SplitHostPort(seed); err != nil {
		host, port = seed, strconv.Itoa(Port)
		if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
			host = host[1 : len(host)-1]
		}
	}
	if _, bad := strconv.ParseUint(port, 10, 16); bad != nil || host == "" || strings.ContainsAny(host, "/ ") {
		return "", "", fmt.Errorf("the address to join %q is not HOST or HOST:PORT: write it like peer-1.example.net or 192.0.2.1:%d", seed, Port)
	}
	return host, port, nil
}
