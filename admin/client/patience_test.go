package client

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// mute is a peer that takes a request and never answers.
type mute struct{ asked []string }

func (m *mute) RoundTrip(r *http.Request) (*http.Response, error) {
	m.asked = append(m.asked, r.URL.Host)
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A peer that takes a request and does not answer is given up after what was asked for and a margin, and the next one is asked.
func TestAPeerThatNeverAnswersIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		call Call
		each time.Duration
	}{
		"a read":           {Call{Path: "models"}, 30 * time.Second},
		"a write":          {Call{Method: http.MethodPut, Path: "freeze"}, 30 * time.Second},
		"a blocking query": {Call{Path: "models", Query: url.Values{"wait": {"5m"}}}, 5*time.Minute + 30*time.Second},
		"nonsense to wait": {Call{Path: "models", Query: url.Values{"wait": {"-1"}}}, 30 * time.Second},
		"a whole snapshot": {Call{Method: http.MethodPut, Path: "snapshot", Body: strings.NewReader("x")}, 11 * time.Minute},
		"its own timeout":  {Call{Path: "models", Timeout: time.Second}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				peers := new(mute)
				client, err := New(Config{Addrs: []string{"peer-1", "peer-2"}, HTTP: &http.Client{Transport: peers}})
				if err != nil {
					t.Fatal(err)
				}
				began, want := time.Now(), 2*c.each
				if c.call.Body != nil { // what is streamed cannot be sent twice
					want = c.each
				}
				_, err = client.Do(t.Context(), c.call, nil)
				if took := time.Since(began); took != want || len(peers.asked) != int(want/c.each) {
					t.Errorf("given up after %v, asked %v: %v", took, peers.asked, err)
				}
				if c.call.Timeout == 0 && (!errors.Is(err, errSilent) || !strings.Contains(err.Error(), c.each.String())) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}
