package sim

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// On TCP a reset is a reset, not an orderly end: routers tell the two apart.
func TestResetOnTCP(t *testing.T) {
	e, err := New(Config{Model: "m", Port: -1, Fault: Fault{Stream: &StreamFault{After: 2, How: "reset"}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, kill := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	<-e.Ready()
	tr := &http.Transport{}
	resp, err := (&http.Client{Transport: tr}).Post("http://"+e.Addr().String()+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt":"x","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(resp.Body); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the stream ended with %v after %q, want a reset", err, b)
	}
	resp.Body.Close()
	tr.CloseIdleConnections()
	kill()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
