package admin

import (
	"net/http"
	"regexp"
	"strings"

	"berth/fleet"
	"berth/fleet/wire"
)

var pathVariable = regexp.MustCompile(`\{([a-z]+)\}`)

// openAPI describes the API as an OpenAPI 3.1 document. It is made from the table of routes that the server itself matches by, so that a route
// cannot be served and not be described.
func openAPI(s *Server, _ *request) (any, error) {
	paths := map[string]map[string]any{}
	for _, r := range routes() {
		path := r.path
		if !strings.HasPrefix(path, "/") {
			path = wire.Prefix + "/" + path
		}
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		paths[path][strings.ToLower(r.method)] = operation(r)
	}
	return map[string]any{
		"openapi": "3.1.0",
		"info":    map[string]any{"title": "Berth", "version": s.Version, "description": "The API of a Berth peer."},
		"paths":   paths,
		"components": map[string]any{"schemas": map[string]any{"Error": map[string]any{
			"type": "object", "required": []string{"error"},
			"properties": map[string]any{"error": map[string]any{
				"type": "object", "required": []string{"code", "message"},
				"properties": map[string]any{
					"code":    map[string]any{"type": "string", "enum": fleet.Codes()},
					"message": map[string]any{"type": "string"},
					"hint":    map[string]any{"type": "string"},
				},
			}},
		}}},
	}, nil
}

func operation(r route) map[string]any {
	op := map[string]any{
		"operationId": operationID(r),
		"summary":     r.does,
		"responses": map[string]any{
			"200": map[string]any{"description": "done", "content": map[string]any{contentOf(r): map[string]any{}}},
			"default": map[string]any{"description": "refused or failed", "content": map[string]any{
				"application/json": map[string]any{"schema": map[string]any{"$ref": "#/components/schemas/Error"}},
			}},
		},
	}
	if params := parameters(r); len(params) > 0 {
		op["parameters"] = params
	}
	if r.method == http.MethodPut || r.method == http.MethodPost || r.method == http.MethodPatch {
		op["requestBody"] = map[string]any{"required": false, "content": map[string]any{bodyOf(r): map[string]any{}}}
	}
	return op
}

func parameters(r route) []any {
	var params []any
	for _, m := range pathVariable.FindAllStringSubmatch(r.path, -1) {
		params = append(params, map[string]any{"name": m[1], "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
	}
	if r.method == http.MethodGet && r.where != anyPeer {
		for _, name := range []string{"index", "wait", "consistency", "limit", "next"} {
			params = append(params, map[string]any{"name": name, "in": "query", "schema": map[string]any{"type": "string"}})
		}
	}
	return params
}

func operationID(r route) string {
	words := strings.FieldsFunc(r.path, func(c rune) bool { return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9') })
	return strings.ToLower(r.method) + "_" + strings.Join(words, "_")
}

func contentOf(r route) string {
	if r.method == http.MethodGet && r.path == "snapshot" {
		return "application/x-berth-snapshot"
	}
	return "application/json"
}

func bodyOf(r route) string {
	if strings.HasPrefix(r.path, "snapshot") {
		return "application/x-berth-snapshot"
	}
	return "application/json"
}
