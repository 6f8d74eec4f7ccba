package router

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"berth/router/openai"
)

// intake reads what must be known of a request before it can be routed: the model, whether it asks for a stream, and as
// much of the body as is kept for another attempt.
type intake struct {
	max, keep int64
	idle      time.Duration
	memory    memory
}

// want is what a request asks for.
type want struct {
	model  string
	stream bool
	body   *body

	prompt  openai.Prompt // where in the body it lies; nothing of a form
	session string        // prompt_cache_key as written
}

// errNoMemory says that large bodies hold all the memory that they may.
var errNoMemory = errors.New("too many large requests at once")

// read reads the body up to keep bytes, or further until the model is known. The error is what to tell the client.
func (in *intake) read(w http.ResponseWriter, r *http.Request, rt *route) (*want, *openai.Error) {
	if r.ContentLength > in.max {
		return nil, in.tooLarge()
	}
	source := &patientReader{from: http.MaxBytesReader(w, r.Body, in.max), control: http.NewResponseController(w), idle: in.idle}
	b := &body{length: r.ContentLength, memory: &in.memory, head: make([]byte, 0, 4<<10)}
	if r.ContentLength >= 0 {
		b.head = make([]byte, 0, min(r.ContentLength, in.keep)+1) // one more, so that the end is seen without growing
	}
	f := &filler{body: b, source: source, keep: in.keep}
	boundary, isForm := formBoundary(r.Header.Get("Content-Type"))
	var wanted *want
	var bad *openai.Error
	switch {
	case isForm != rt.form && rt.form:
		bad = badRequest(rt.path+" takes a multipart form (Content-Type: multipart/form-data)", "")
	case isForm != rt.form:
		bad = badRequest(rt.path+" takes a JSON object, not a multipart form", "")
	case isForm:
		wanted, bad = readForm(f, boundary)
	default:
		wanted, bad = readJSON(f)
	}
	if f.failed != nil {
		bad = in.readError(f.failed)
	}
	if bad != nil {
		b.free()
		return nil, bad
	}
	return wanted, nil
}

// formBoundary says whether a content type is that of a form. Anything else is taken for JSON, whatever it calls itself.
func formBoundary(contentType string) (string, bool) {
	if len(contentType) < 10 || !strings.EqualFold(contentType[:10], "multipart/") {
		return "", false
	}
	media, params, err := mime.ParseMediaType(contentType)
	return params["boundary"], err == nil && media == "multipart/form-data"
}

func readJSON(f *filler) (*want, *openai.Error) {
	var scan openai.Scanner
	for !f.done && !(f.full() && scan.HasModel()) {
		if _, err := scan.Write(f.fill()); err != nil {
			return nil, badRequest(err.Error(), "")
		}
	}
	if f.done {
		if err := scan.Close(); err != nil {
			return nil, badRequest(err.Error(), "")
		}
	}
	f.leave(&scan) // what is left is checked as it passes
	model, err := scan.Model()
	if err != nil {
		return nil, badRequest(err.Error(), "model")
	}
	stream, err := scan.Stream()
	if err != nil {
		return nil, badRequest(err.Error(), "stream")
	}
	return &want{model: model, stream: stream, body: f.body, prompt: scan.Prompt(), session: scan.Session()}, nil
}

func readForm(f *filler, boundary string) (*want, *openai.Error) {
	model, stream, err := openai.FormModel(f, boundary)
	if err != nil {
		return nil, badRequest(err.Error(), "model")
	}
	for !f.done && !f.full() {
		f.fill()
	}
	f.leave(nil)
	return &want{model: model, stream: stream, body: f.body}, nil
}

func badRequest(message, param string) *openai.Error {
	return &openai.Error{Status: http.StatusBadRequest, Message: message, Param: param, Code: "invalid_request"}
}

func (in *intake) tooLarge() *openai.Error {
	return &openai.Error{Status: http.StatusRequestEntityTooLarge, Code: "request_too_large",
		Message: fmt.Sprintf("the request has more than %d bytes, the most that this router takes", in.max)}
}

func (in *intake) readError(err error) *openai.Error {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return in.tooLarge()
	case errors.Is(err, errNoMemory):
		return &openai.Error{Status: http.StatusServiceUnavailable, Code: "server_is_overloaded", Message: err.Error(), RetryAfter: time.Second}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &openai.Error{Status: http.StatusRequestTimeout, Code: "request_timeout",
			Message: fmt.Sprintf("the request's body did not come: nothing for %s", in.idle)}
	}
	return badRequest("the request's body ended early or could not be read", "")
}

// filler reads a body into its head.
type filler struct {
	body   *body
	source *patientReader
	keep   int64
	done   bool  // the body's end was read, or failed is set
	failed error // what ended the reading before that
	read   int   // of head, by Read
}

func (f *filler) full() bool { return int64(len(f.body.head)) >= f.keep }

// fill reads once and returns what came.
func (f *filler) fill() []byte {
	b := f.body
	if len(b.head) == cap(b.head) && !f.grow() {
		return nil
	}
	n, err := f.source.Read(b.head[len(b.head):cap(b.head)])
	b.head = b.head[:len(b.head)+n]
	if err == io.EOF {
		f.done, b.length = true, int64(len(b.head))
	} else if err != nil {
		f.done, f.failed = true, err
	}
	return b.head[len(b.head)-n:]
}

// grow doubles the room, which beyond keep comes from the account of large bodies.
func (f *filler) grow() bool {
	b := f.body
	size := 2 * int64(cap(b.head))
	if size > 2*f.keep {
		if !b.memory.take(size - b.held) {
			f.done, f.failed = true, errNoMemory
			return false
		}
		b.held = size
	}
	b.head = append(make([]byte, 0, size), b.head...)
	return true
}

// leave leaves the rest of the body for the engine to read, past a check if there is one.
func (f *filler) leave(check io.Writer) {
	if f.done {
		return
	}
	f.body.rest = f.source
	if check != nil {
		f.body.rest = io.TeeReader(f.source, check)
	}
}

// Read reads the body from its begin, for a reader of forms, and keeps it.
func (f *filler) Read(p []byte) (int, error) {
	for f.read == len(f.body.head) {
		if f.done {
			if f.failed != nil {
				return 0, f.failed
			}
			return 0, io.EOF
		}
		f.fill()
	}
	n := copy(p, f.body.head[f.read:])
	f.read += n
	return n, nil
}

// patientReader reads a client's body and gives it a time for each piece.
type patientReader struct {
	from    io.Reader
	control *http.ResponseController
	idle    time.Duration
}

func (p *patientReader) Read(buf []byte) (int, error) {
	_ = p.control.SetReadDeadline(time.Now().Add(p.idle)) // a writer that has none is a test's
	n, err := p.from.Read(buf)
	if err == io.EOF {
		// The server goes on to read for the client's end, which no deadline must bring forward. After a failure the
		// deadline stays: the server would otherwise wait for what is left of the body before it sends the answer.
		_ = p.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
