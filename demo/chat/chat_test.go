package chat

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = `data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n"

func open(t *testing.T, status int, body string) (*Stream, error) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // the reader says what it got
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return Open(t.Context(), srv.URL, Request{Model: "m"})
}

func TestWholeStream(t *testing.T) {
	s, err := open(t, 200, ": waiting\n\n"+strings.Repeat(token, 3)+`data: {"choices":[{"delta":{},"finish_reason":"length"}]}`+"\n\n"+
		`data: {"choices":[],"usage":{"completion_tokens":3}}`+"\n\ndata: [DONE]\n\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Read(2); err != nil || s.Tokens != 2 {
		t.Fatal(s.Tokens, err)
	}
	if text, err := s.Rest(); text != "a" || err != nil || s.Tokens != 3 || s.Usage != 3 || s.Finish != "length" {
		t.Errorf("%q, %v, %+v", text, err, s)
	}
}

func TestStreamThatIsNotWhole(t *testing.T) {
	for body, want := range map[string]string{
		token:                      ErrCut.Error(),
		token + "data: [DONE]\n\n": "without a reason",
		token + `data: {"error":{"message":"upstream died","type":"server_error"}}` + "\n\n": "upstream died",
		"data: {\n\n": "not JSON",
	} {
		s, err := open(t, 200, body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Rest(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", body, err, want)
		}
	}
}

func TestRefusal(t *testing.T) {
	_, err := open(t, 404, `{"error":{"message":"no such model","type":"not_found_error","code":"model_not_found"}}`)
	var e *Error
	if !errors.As(err, &e) || e.Status != 404 || e.Code != "model_not_found" || !strings.Contains(err.Error(), "no such model") {
		t.Errorf("%v", err)
	}
	if _, err := open(t, 502, "bad gateway\n"); err == nil || !strings.Contains(err.Error(), "status 502") || !strings.Contains(err.Error(), "bad gateway") {
		t.Errorf("%v", err)
	}
}
