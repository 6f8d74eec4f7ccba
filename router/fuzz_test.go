package router

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/listen"
	"berth/internal/ops"
	"berth/router/openai"
	"berth/router/pool"
)

// recorder stands for all engines: it answers at once and keeps what it was sent.
type recorder struct {
	mu   sync.Mutex
	seen []string
	bad  []string
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, req.URL.Path)
	switch model, ok := modelOf(req, body); {
	case err != nil: // the client broke its body off
	case req.Method != http.MethodPost || routes()[req.URL.Path] == nil || req.URL.Host != "192.0.2.1:1":
		r.bad = append(r.bad, fmt.Sprintf("%s %s at %s", req.Method, req.URL, req.URL.Host))
	case len(req.Header[wire.HeaderReplicaKey]) != 1 || req.Header.Get(wire.HeaderReplicaKey) != "k" || req.Header["Transfer-Encoding"] != nil || req.Header["Upgrade"] != nil:
		r.bad = append(r.bad, fmt.Sprintf("header %v", req.Header))
	case !ok || model != "m":
		r.bad = append(r.bad, fmt.Sprintf("a body of model %q: %q", model, body))
	}
	return &http.Response{StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: 2,
		Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

// modelOf is the model as another reader finds it.
func modelOf(req *http.Request, body []byte) (string, bool) {
	if boundary, isForm := formBoundary(req.Header.Get("Content-Type")); isForm {
		model, _, err := openai.FormModel(bytes.NewReader(body), boundary)
		return model, err == nil
	}
	model, _, err := ReadPrompt(body)
	return model, err == nil
}

// FuzzConnection sends whatever to the port of clients. Each request in it ends in an answer or a closed connection, and
// what comes to an engine is a request that was there, for the model that this engine serves, under the router's own key.
func FuzzConnection(f *testing.F) {
	line := "POST " + chatPath + " HTTP/1.1\r\n"
	for _, text := range []string{
		line + "Host: x\r\nContent-Length: 26\r\n\r\n" + chatBody,
		line + "Host: x\r\nContent-Length: 26\r\nContent-Length: 3\r\n\r\n" + chatBody,
		line + "Host: x\r\nContent-Length: 26\r\nTransfer-Encoding: chunked\r\n\r\n" + chatBody,
		line + "Host: x\r\nTransfer-Encoding: chunked\r\n\r\n1a\r\n" + chatBody + "\r\n0\r\n\r\n" + line + "Host: x\r\nContent-Length: 26\r\n\r\n" + chatBody,
		line + "Host: x\r\nHost: y\r\nContent-Length: 26\r\n\r\n" + chatBody,
		line + "Host: x\r\nX: a\r\n b\r\nContent-Length: 26\r\n\r\n" + chatBody,
		line + "Host: x\nContent-Length: 26\n\n" + chatBody,
		line + "Host: x\r\nContent-Length: 900\r\n\r\n" + chatBody,
		line + "Host: x\r\nExpect: 100-continue\r\nContent-Length: 26\r\n\r\n" + chatBody,
		line + "Host: x\r\nBerth-Replica-Key: forged\r\nConnection: Berth-Replica-Key\r\nContent-Length: 26\r\n\r\n" + chatBody,
		line + "Host: x\r\nContent-Length: 37\r\n\r\n" + `{"model":"m","model":"n","messages":[]}`,
		"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 63\r\n\r\n--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b--\r\n",
		"POST /v1/../sleep HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		f.Add([]byte(text))
	}
	c := Config{Name: "fuzz", DataDir: "unused", BodyIdle: 100 * time.Millisecond}.withDefaults()
	p := pool.New(c.Clock)
	p.Apply(wire.Table{Version: 1, Cluster: "c", Index: fleet.Index{N: 1}, Models: []wire.TableModel{model("m", wire.Endpoint{Replica: "a", Address: "192.0.2.1:1", Key: "k", State: fleet.Ready})}})
	engines := new(recorder)
	h := newHandler(c, p, engines, newMetrics(ops.New(ops.Build{Role: "router"}).Registry(), p, func() tableState { return tableState{} }))
	ln, err := listen.System.Listen(f.Context(), "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- listen.ServeHTTP(ctx, ln, h, listen.ServerOptions{H2C: true, Plain: h.plain, PlainBody: plainBody, Drain: time.Second})
	}()
	f.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, text []byte) {
		engines.mu.Lock()
		engines.seen, engines.bad = nil, nil
		engines.mu.Unlock()
		answered := sendAll(t, ln.Addr().String(), text)
		engines.mu.Lock()
		defer engines.mu.Unlock()
		if len(engines.bad) > 0 {
			t.Fatalf("an engine got %q", engines.bad)
		}
		if n := bytes.Count(text, []byte("HTTP/1.1")) + bytes.Count(text, []byte("HTTP/1.0")); !bytes.HasPrefix(text, []byte("PRI")) && (len(engines.seen) > n || answered > n+1) {
			t.Fatalf("%d requests came to engines and %d answers back of %d that were sent", len(engines.seen), answered, n)
		}
	})
}

// sendAll sends bytes on a connection of their own, ends its side, and counts the answers until the router ends the other.
func sendAll(t *testing.T, addr string, text []byte) (answered int) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Skip("no more connections: ", err) // a fuzzer opens thousands a second
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = conn.Write(text) // the router may have ended it
	in := bufio.NewReader(conn)
	if len(text)%2 == 0 { // the others wait for all answers
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	_ = conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
		if err != nil {
			return answered
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return answered
		}
		if resp.StatusCode >= 200 {
			answered++
		}
	}
}
