package listen

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TestACertificateIsFollowed: a renewed one is used within seconds; halves of two, and rubbish, change nothing.
func TestACertificateIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
		stamp := time.Now()
		write := func(path, kind string, der []byte) {
			stamp = stamp.Add(time.Second)
			if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, stamp, stamp); err != nil {
				t.Fatal(err)
			}
		}
		make := func(serial int64) (certDER, keyDER []byte) {
			k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
			if certDER, err = x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k); err != nil {
				t.Fatal(err)
			}
			if keyDER, err = x509.MarshalPKCS8PrivateKey(k); err != nil {
				t.Fatal(err)
			}
			return certDER, keyDER
		}
		oldCert, oldKey := make(1)
		newCert, newKey := make(2)
		write(cert, "CERTIFICATE", oldCert)
		if _, err := NewCertificate(cert, key, slog.New(slog.DiscardHandler)); err == nil {
			t.Fatal("a certificate without a key")
		}
		write(key, "PRIVATE KEY", oldKey)
		c, err := NewCertificate(cert, key, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		want := func(serial int64, when string) {
			t.Helper()
			time.Sleep(certificateLook + time.Second)
			pair, err := c.Config().GetCertificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := pair.Leaf.SerialNumber.Int64(); got != serial {
				t.Errorf("%s: certificate %d, want %d", when, got, serial)
			}
		}
		want(1, "at first")
		write(cert, "CERTIFICATE", newCert)
		want(1, "a new certificate with the old key")
		write(key, "PRIVATE KEY", newKey)
		want(2, "both new")
		write(cert, "CERTIFICATE", []byte("rubbish"))
		want(2, "rubbish")
	})
}
