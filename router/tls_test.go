package router

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/listen"
)

// certificate is a self-signed one for the router's address, and a pool that trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ := net.SplitHostPort(clientsAt)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, IPAddresses: []net.IP{net.ParseIP(host)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// TestTLS: over TLS a client that speaks HTTP/2 gets it, one that does not gets HTTP/1.1, and streams and trailers are
// the same on both.
func TestTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cert, roots := certificate(t)
		c := newCluster(t, func(c *Config) {
			c.Policy = listen.Policy{TLS: &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}}
		})
		c.set(model("m", c.engine("a", "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Usage")
			sse(3, time.Second)(w, r)
			w.Header().Set("X-Usage", "7")
		})))
		for proto, two := range map[string]bool{"HTTP/2.0": true, "HTTP/1.1": false} {
			transport := listen.Transport(c.net.Host("10.0.9.6"))
			transport.TLSClientConfig = &tls.Config{RootCAs: roots}
			transport.Protocols = new(http.Protocols)
			transport.Protocols.SetHTTP1(!two)
			transport.Protocols.SetHTTP2(two)
			defer transport.CloseIdleConnections()
			resp, err := (&http.Client{Transport: transport}).Post("https://"+clientsAt+chatPath, "application/json", strings.NewReader(`{"model":"m","stream":true}`))
			if err != nil {
				t.Fatal(err)
			}
			body := readAll(t, resp)
			if resp.Proto != proto || !strings.HasSuffix(body, "[DONE]\n\n") || resp.Trailer.Get("X-Usage") != "7" {
				t.Errorf("%s: %s %q, trailers %v", proto, resp.Proto, body, resp.Trailer)
			}
		}
	})
}
