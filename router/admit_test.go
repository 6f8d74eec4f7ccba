package router

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"berth/agent/engine/sim"
	"berth/router/access"
)

func sha(key string) string {
	s := sha256.Sum256([]byte(key))
	return hex.EncodeToString(s[:])
}

func withKeys(f access.File) func(*Config) {
	f.Version = access.FileVersion
	return func(c *Config) { c.Keys = &f }
}

func TestAPIKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, withKeys(access.File{Keys: []access.Key{{Name: "search", SHA256: sha("k1"), RequestsPerMinute: 12}, {Name: "other", SHA256: sha("k2"), Models: []string{"n"}}}}))
		c.set(model("m", c.simulated("a", "10.0.0.1", func(s *sim.Config) { s.Model = "m" })), model("n"))
		ask := func(key string) error {
			client := c.openai(option.WithAPIKey(key), option.WithMaxRetries(0))
			_, err := client.Chat.Completions.New(t.Context(), chat("m"))
			return err
		}
		if err := ask("k1"); err != nil {
			t.Error(err)
		}
		_ = ask("k1") // the second of the two that may come at once
		for key, want := range map[string]struct {
			status int
			code   string
		}{"wrong": {401, "invalid_api_key"}, sha("k1"): {401, "invalid_api_key"}, "k2": {403, "model_not_allowed"}, "k1": {429, "rate_limit_exceeded"}} {
			var e *openai.Error
			if err := ask(key); !errors.As(err, &e) || e.StatusCode != want.status || e.Code != want.code {
				t.Errorf("%s: %v, want %+v", key, err, want)
			} else if after := e.Response.Header.Get("Retry-After"); want.status == 429 && after != "5" {
				t.Errorf("Retry-After is %q, at twelve a minute", after)
			}
		}
		patient := c.openai(option.WithAPIKey("k1"))
		if _, err := patient.Chat.Completions.New(t.Context(), chat("m")); err != nil {
			t.Errorf("a client that comes again when it is told to: %v", err)
		}
		if a := c.get(base + "/v1/models"); a.status != 401 || a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("models without a key: %d", a.status)
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v1/models", nil)
		req.Header.Set("X-Api-Key", "k2")
		if a := c.do(req); a.status != 200 || strings.Contains(a.body, `"m"`) || !strings.Contains(a.body, `"n"`) {
			t.Errorf("models of k2: %d %s", a.status, a.body)
		}
	})
}

// TestTheFileOfKeysIsFollowed: a new key opens and an old one does not, within seconds; a file that is of no use changes
// nothing.
func TestTheFileOfKeysIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "keys.yaml")
		stamp := time.Now()
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			stamp = stamp.Add(time.Second)
			if err := os.Chtimes(path, stamp, stamp); err != nil {
				t.Fatal(err)
			}
		}
		write("version: 1\nkeys: [{name: a, sha256: " + sha("k1") + "}]\n")
		f, err := access.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		c := newCluster(t, func(c *Config) { c.Keys, c.KeysFile = &f, path })
		c.set(model("m", c.engine("a", "10.0.0.1", ok("a"))))
		for _, step := range []struct{ text, opens, shut string }{
			{"", "k1", "k2"},
			{"version: 1\nkeys: [{name: a, sha256: " + sha("k2") + "}]\n", "k2", "k1"},
			{"version: 1\nkeys: []\n", "k2", "k1"},
			{"version: 1\nkeys: [{name: b, sha256: " + sha("k1") + "}]\n", "k1", "k2"},
		} {
			if step.text != "" {
				write(step.text)
			}
			time.Sleep(keysLook + time.Second)
			for key, want := range map[string]int{step.opens: 200, step.shut: 401} {
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, base+chatPath, strings.NewReader(chatBody))
				req.Header.Set("Authorization", "Bearer "+key)
				if a := c.do(req); a.status != want {
					t.Errorf("after %q, %s: %d, want %d", step.text, key, a.status, want)
				}
			}
		}
	})
}
