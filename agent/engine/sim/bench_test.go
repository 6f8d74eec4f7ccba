package sim

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkStreamedToken is the engine's own cost of a token on loopback, the client's
// reading included: what a bench that shares the machine must take off its figures.
func BenchmarkStreamedToken(b *testing.B) {
	e, err := New(Config{Model: "m", MaxModelLen: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	s := httptest.NewServer(e)
	defer s.Close()
	const tokens = 1000
	body := strings.Replace(completion("bench", tokens), `"model":"m",`, "", 1)
	b.ReportAllocs()
	for range b.N/tokens + 1 {
		resp, err := http.Post(s.URL+"/v1/completions", "application/json", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
	}
}
