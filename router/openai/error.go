package openai

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"
)

// Error is a failure as OpenAI's clients read it: {"error":{"message","type","param","code"}}, all four always there.
type Error struct {
	Status     int
	Message    string
	Type       string        // "" takes the usual type of the status
	Param      string        // the member of the request that is wrong; "" is written as null
	Code       string        // "" is written as null
	RetryAfter time.Duration // > 0: sent as Retry-After and retry-after-ms
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

type object struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func (e *Error) object() object {
	o := object{Message: e.Message, Type: e.Type, Param: optional(e.Param), Code: optional(e.Code)}
	if o.Type == "" {
		o.Type = TypeOf(e.Status)
	}
	return o
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// JSON returns the body.
func (e *Error) JSON() []byte {
	return mustJSON(struct {
		Error object `json:"error"`
	}{e.object()})
}

// WriteTo sends the error as the answer to a request.
func (e *Error) WriteTo(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if e.RetryAfter > 0 {
		SetRetryAfter(h, e.RetryAfter)
	}
	body := e.JSON()
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(e.Status)
	_, _ = w.Write(body) // the client may be gone
}

// SetRetryAfter says when to come again, in whole seconds for everybody and in milliseconds for OpenAI's clients.
func SetRetryAfter(h http.Header, d time.Duration) {
	h.Set("Retry-After", strconv.Itoa(int(math.Ceil(d.Seconds()))))
	h.Set("Retry-After-Ms", strconv.FormatInt(int64(math.Ceil(d.Seconds()*1000)), 10)) // too early would be refused again
}

// TypeOf returns the usual type of an error with that status.
func TypeOf(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusForbidden:
		return "permission_error"
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status == http.StatusServiceUnavailable:
		return "service_unavailable_error"
	case status >= 500:
		return "server_error"
	default:
		return "invalid_request_error"
	}
}

// Dialect is the family of a route: it decides how an error looks in the middle of a stream.
type Dialect int

// Dialects.
const (
	Chat      Dialect = iota // chat, completions and all else: data lines alone
	Responses                // named events; the error's members at the top
	Messages                 // Anthropic's: named events; the error nested
)

// Event returns the error as an event of a stream. Nothing may follow it.
func (e *Error) Event(d Dialect) []byte {
	switch o := e.object(); d {
	case Responses:
		return event("error", struct {
			Type    string  `json:"type"`
			Code    *string `json:"code"`
			Message string  `json:"message"`
			Param   *string `json:"param"`
		}{"error", o.Code, o.Message, o.Param})
	case Messages:
		return event("error", struct {
			Type  string `json:"type"`
			Error object `json:"error"`
		}{"error", o})
	default:
		return append(append([]byte("data: "), e.JSON()...), "\n\n"...)
	}
}

func event(name string, v any) []byte {
	out := append([]byte("event: "+name+"\ndata: "), mustJSON(v)...)
	return append(out, "\n\n"...)
}

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("openai: an error that does not marshal: " + err.Error()) // strings alone: cannot happen
	}
	return data
}
