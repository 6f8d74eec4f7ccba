package listen_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/listen"
	"berth/internal/memnet"
)

func TestExposed(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:80":          false,
		"127.8.0.1:80":          false,
		"[::1]:80":              false,
		"localhost:80":          false,
		"[::ffff:127.0.0.1]:80": false,
		":80":                   true,
		"0.0.0.0:80":            true,
		"[::]:80":               true,
		"192.0.2.1:80":          true,
		"gpu-017:80":            true,
		"localhost.example:80":  true,
	} {
		if got, err := listen.Exposed(addr); got != want || err != nil {
			t.Errorf("Exposed(%q) = %v, %v; want %v", addr, got, err, want)
		}
	}
	if _, err := listen.Exposed("192.0.2.1"); err == nil {
		t.Error("an address without a port passed")
	}
}

func TestPolicyRefusesTheClear(t *testing.T) {
	host := memnet.New(1).Host("192.0.2.1")
	spec := listen.Spec{Addr: "192.0.2.1:80", Flag: "--client-bind"}
	for name, c := range map[string]struct {
		policy          listen.Policy
		sealed          bool
		stream, packets bool // refused
	}{
		"zero":     {stream: true, packets: true},
		"insecure": {policy: listen.Policy{InsecureNoTLS: true}},
		"tls":      {policy: listen.Policy{TLS: &tls.Config{}}, packets: true},
		"sealed":   {sealed: true},
	} {
		t.Run(name, func(t *testing.T) {
			spec.Sealed = c.sealed
			ln, err := c.policy.Listen(t.Context(), host, spec)
			refused(t, "stream", err, c.stream)
			if err == nil {
				ln.Close()
			}
			pc, err := c.policy.ListenPacket(t.Context(), host, spec)
			refused(t, "packets", err, c.packets)
			if err == nil {
				pc.Close()
			}
		})
	}
}

func refused(t *testing.T, what string, err error, want bool) {
	t.Helper()
	if errors.Is(err, listen.ErrExposed) != want {
		t.Errorf("%s: %v; want refusal %v", what, err, want)
	}
	if want && (!strings.Contains(err.Error(), "--insecure-no-tls") || !strings.Contains(err.Error(), "--client-bind")) {
		t.Errorf("%s: %v does not name both flags", what, err)
	}
}

func TestPolicyWrapsInTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := memnet.New(1).Host("192.0.2.1")
		policy := listen.Policy{TLS: &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return nil, errors.New("handshake began")
		}}}
		ln, err := policy.Listen(t.Context(), host, listen.Spec{Addr: "192.0.2.1:443"})
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		client, err := host.Dial(t.Context(), "192.0.2.1:443")
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		c, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, ok := c.(*tls.Conn); !ok {
			t.Errorf("accepted %T, want TLS", c)
		}
	})
}

func TestPortInUse(t *testing.T) {
	first, err := listen.System.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	addr := first.Addr().String()
	_, err = listen.Policy{}.Listen(t.Context(), listen.System, listen.Spec{Addr: addr, Flag: "--bind"})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "--bind") {
		t.Errorf("second listener: %v", err)
	}
}

func TestSystem(t *testing.T) {
	ln, err := listen.System.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := listen.System.Dial(t.Context(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	io.WriteString(c, "ok")
	c.Close()
	if got, err := io.ReadAll(far); string(got) != "ok" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	pc, err := listen.System.ListenPacket(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	if _, err := pc.WriteTo([]byte("self"), pc.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	pc.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, _, err := pc.ReadFrom(make([]byte, 8)); n != 4 || err != nil {
		t.Errorf("datagram of %d bytes, %v", n, err)
	}
}

func TestWarn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := func(p listen.Policy, addrs ...string) int {
			var out bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), 150*time.Minute)
			defer cancel()
			if err := p.Warn(ctx, slog.New(slog.NewTextHandler(&out, nil)), addrs...); err != nil {
				t.Error(err)
			}
			return strings.Count(out.String(), "192.0.2.1:80")
		}
		open := listen.Policy{InsecureNoTLS: true}
		if got := count(open, "127.0.0.1:1", "192.0.2.1:80"); got != 3 {
			t.Errorf("warned %d times in two and a half hours, want 3", got)
		}
		if got := count(open, "127.0.0.1:80"); got != 0 {
			t.Errorf("warned %d times of loopback", got)
		}
		if got := count(listen.Policy{TLS: &tls.Config{}}, "192.0.2.1:80"); got != 0 {
			t.Errorf("warned %d times with TLS", got)
		}
	})
}
