package router

import (
	"net/http"
	"strings"
	"time"

	"berth/router/access"
	"berth/router/openai"
)

// credential is the key that a request carries, as OpenAI's clients send it or as others do; "" if there is none.
func credential(h http.Header) string {
	if scheme, key, ok := strings.Cut(h.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(key)
	}
	for _, name := range []string{"X-Api-Key", "Api-Key"} {
		if key := h.Get(name); key != "" {
			return key
		}
	}
	return ""
}

// whose returns the client whose key the request carries. Without a file of keys there are no clients, and nil is fine.
func (h *handler) whose(w http.ResponseWriter, r *http.Request) (*access.Client, *openai.Error) {
	if h.gate == nil {
		return nil, nil
	}
	key := credential(r.Header)
	if c, ok := h.gate.Client(key); ok {
		return c, nil
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	e := &openai.Error{Status: http.StatusUnauthorized, Code: "invalid_api_key", Message: "this router does not know the API key"}
	if key == "" {
		e.Message = "an API key is needed: Authorization: Bearer KEY"
	}
	return nil, e
}

// enter admits the request by the limits of its key and its model. leave must be called at the end. A model that does
// not exist is left to who routes.
func (x *exchange) enter() (leave func(), e *openai.Error) {
	name, ok := x.h.pool.Name(x.want.model)
	if x.client == nil || !ok {
		return func() {}, nil
	}
	leave, denied := x.h.gate.Enter(x.client, name, time.Now())
	switch {
	case denied == nil:
		return leave, nil
	case denied.RetryAfter == 0:
		return nil, &openai.Error{Status: http.StatusForbidden, Code: "model_not_allowed", Param: "model", Message: denied.Message}
	}
	x.h.metrics.denials.WithLabelValues(x.client.Name).Inc()
	return nil, &openai.Error{Status: http.StatusTooManyRequests, Code: "rate_limit_exceeded", Message: denied.Message, RetryAfter: denied.RetryAfter}
}

// fairKey says whose turn a request takes when it must wait. Without a file of keys it is whatever key the client sent.
func (x *exchange) fairKey() string {
	if x.client != nil {
		return x.client.Name
	}
	return credential(x.r.Header)
}
