package listen

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificateLook is how often, at most, the files of a certificate are looked at: by connections that begin.
const certificateLook = 5 * time.Second

// Certificate is a certificate in files, which whoever renews it replaces under a running process.
type Certificate struct {
	cert, key string
	log       *slog.Logger

	mu     sync.Mutex
	looked time.Time
	seen   [2]time.Time // when the files were changed, as of the pair in use or the newest that was of no use
	pair   *tls.Certificate
}

// NewCertificate reads the files, PEM both, the chain with the leaf first.
func NewCertificate(cert, key string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, log: log, looked: time.Now()}
	c.seen = c.changed()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", cert, key, err)
	}
	c.pair = &pair
	return c, nil
}

// Config is for a listener that serves HTTP/1.1 and HTTP/2 by the newest certificate.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: c.get}
}

func (c *Certificate) changed() (at [2]time.Time) {
	for i, path := range []string{c.cert, c.key} {
		if info, err := os.Stat(path); err == nil {
			at[i] = info.ModTime()
		}
	}
	return at
}

// get gives the pair in use, and takes a new one when the files have changed. Files that do not fit each other, because
// one of them is not replaced yet, are tried again when the other one changes.
func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < certificateLook {
		return c.pair, nil
	}
	c.looked = time.Now()
	now := c.changed()
	if now == c.seen {
		return c.pair, nil
	}
	c.seen = now
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		c.log.Error("the certificate has changed and is of no use; the old one stays", "certificate", c.cert, "error", err)
		return c.pair, nil
	}
	c.log.Info("the certificate has been read again", "certificate", c.cert)
	c.pair = &pair
	return c.pair, nil
}
