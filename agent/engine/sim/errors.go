package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// apiError is an answer that is an error, in vLLM's terms.
type apiError struct {
	status  int
	kind    string
	message string
	param   *string
}

func (e *apiError) Error() string { return fmt.Sprintf("%d %s: %s", e.status, e.kind, e.message) }

func badRequest(format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, kind: "BadRequestError", message: fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) *apiError {
	return &apiError{status: http.StatusNotFound, kind: "NotFoundError", message: fmt.Sprintf(format, args...)}
}

func unavailable(message string) *apiError {
	return &apiError{status: http.StatusServiceUnavailable, kind: "ServiceUnavailableError", message: message}
}

func internal(message string) *apiError {
	return &apiError{status: http.StatusInternalServerError, kind: "InternalServerError", message: message}
}

// body is the error's JSON: nested with the status as an integer code, as vLLM
// writes it now, or flat, as it did and as SGLang does.
func (e *apiError) body(flat bool) any {
	type fields struct {
		Object  string  `json:"object,omitempty"`
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    int     `json:"code"`
	}
	f := fields{Message: e.message, Type: e.kind, Param: e.param, Code: e.status}
	if flat {
		f.Object = "error"
		return f
	}
	return map[string]fields{"error": f}
}

func (e *apiError) write(w http.ResponseWriter, flat bool) {
	writeJSON(w, e.status, e.body(flat))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("sim: %T does not marshal: %v", v, err)) // our own types
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// Ways for a handler to end other than well or with an apiError.
var (
	errBroken   = errors.New("cut by a fault")         // the connection must not end well
	errEndEarly = errors.New("ended early by a fault") // the body ends as if whole
)
