package fleet

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// Code names one kind of failure. Codes survive the wire, so errors.Is works on both sides of a forward: errors.Is(err, fleet.NotFound).
type Code string

// Every error code of the API, in one place.
const (
	BadRequest     Code = "bad_request"
	UnknownField   Code = "unknown_field"
	Unauthorized   Code = "unauthorized"
	Forbidden      Code = "forbidden"
	NotFound       Code = "not_found"
	Conflict       Code = "conflict"
	WrongCluster   Code = "wrong_cluster"
	DuplicateID    Code = "duplicate_id"
	StaleEpoch     Code = "stale_epoch"
	TooOld         Code = "too_old"
	Changed        Code = "changed"
	TooLarge       Code = "too_large"
	InvalidSpec    Code = "invalid_spec"
	Unplaceable    Code = "unplaceable"
	LevelTooOld    Code = "level_too_old"
	Busy           Code = "busy"
	Internal       Code = "internal"
	NotReady       Code = "not_ready"
	NoLeader       Code = "no_leader"
	Frozen         Code = "frozen"
	OutcomeUnknown Code = "outcome_unknown"
)

var codeStatus = map[Code]int{
	BadRequest: http.StatusBadRequest, UnknownField: http.StatusBadRequest,
	Unauthorized: http.StatusUnauthorized, Forbidden: http.StatusForbidden, NotFound: http.StatusNotFound,
	Conflict: http.StatusConflict, WrongCluster: http.StatusConflict, DuplicateID: http.StatusConflict,
	StaleEpoch: http.StatusGone, TooOld: http.StatusGone, Changed: http.StatusPreconditionFailed, TooLarge: http.StatusRequestEntityTooLarge,
	InvalidSpec: http.StatusUnprocessableEntity, Unplaceable: http.StatusUnprocessableEntity,
	LevelTooOld: http.StatusUpgradeRequired, Busy: http.StatusTooManyRequests, Internal: http.StatusInternalServerError,
	NotReady: http.StatusServiceUnavailable, NoLeader: http.StatusServiceUnavailable, Frozen: http.StatusServiceUnavailable,
	OutcomeUnknown: http.StatusGatewayTimeout,
}

// Codes returns every code in order.
func Codes() []Code { return slices.Sorted(maps.Keys(codeStatus)) }

// Status returns the HTTP status that carries the code; 500 for a code that this version does not know.
func (c Code) Status() int {
	if s, ok := codeStatus[c]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// Error makes a Code usable as the target of errors.Is.
func (c Code) Error() string { return string(c) }

// Error is what an operator or a program is told when something is refused or fails: a stable code, what happened, and what would be right.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Error returns the message followed by the hint.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + " (" + e.Hint + ")"
}

// Is reports whether target is e's code, or an Error with the same code.
func (e *Error) Is(target error) bool {
	if c, ok := target.(Code); ok {
		return e.Code == c
	}
	var t *Error
	return errors.As(target, &t) && t.Code == e.Code
}

// Errorf returns an Error of the given code.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithHint returns e with a hint: what would be right, or what to do next.
func (e *Error) WithHint(format string, args ...any) *Error {
	return &Error{Code: e.Code, Message: e.Message, Hint: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code that err carries, or Internal.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}

// AsError returns err as an *Error, wrapping what is not one as Internal; nil stays nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: Internal, Message: err.Error()}
}
