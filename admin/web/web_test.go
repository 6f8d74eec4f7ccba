package web

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"berth/fleet/wire"
)

func served(t *testing.T) (*http.Response, string) {
	t.Helper()
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("%d, %v", w.Code, err)
	}
	return w.Result(), string(body)
}

// Everything that the page needs is in the page: no address, nothing loaded, and a policy that forbids it.
func TestThePageLoadsNothingFromElsewhere(t *testing.T) {
	res, body := served(t)
	if found := regexp.MustCompile(`(?i)(https?:|wss?:|["'(]//|\bsrc\s*=|\bhref\s*=|@import|url\()`).FindString(body); found != "" {
		t.Errorf("the page has %q", found)
	}
	policy := res.Header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || strings.Count(policy, "sha256-") != 2 {
		t.Errorf("policy %q", policy)
	}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
		t.Errorf("content type %q", res.Header.Get("Content-Type"))
	}
}

// What the fleet says is set as text, never as markup or code.
func TestThePageMakesNoMarkupOfWhatItIsTold(t *testing.T) {
	_, body := served(t)
	for _, way := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"} {
		if strings.Contains(body, way) {
			t.Errorf("the page uses %s", way)
		}
	}
}

// The page reads exactly the fields of the status document.
func TestThePageReadsTheFieldsOfTheDocument(t *testing.T) {
	data, err := json.Marshal(wire.Status{})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	_, body := served(t)
	read := map[string]bool{}
	for _, m := range regexp.MustCompile(`\bdoc\.([a-z_]+)`).FindAllStringSubmatch(body, -1) {
		read[m[1]] = true
		if _, ok := fields[m[1]]; !ok && m[1] != "error" {
			t.Errorf("the page reads %s, which no status document has", m[1])
		}
	}
	for name := range fields {
		if !read[name] {
			t.Errorf("the page does not show %s", name)
		}
	}
}
